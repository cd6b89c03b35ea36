// Few rows of x times the transposes of one or several weights [n, k]: each weight is read once, from where
// it lies, by all threads together. Used by gemv.cpp for one weight and by linear_dots.cpp
// for layers that share x. Every element is one sum in one order, whatever the pieces, the threads and the other rows of x.
// Many rows of x are taken in blocks, so that the sums of a piece stay in L1; each block reads the weights again.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemv/gemm_rows.h"

namespace genesis::cpu {

// y = f(a, b), element by element, all of the type of C; y may be a.
using Combine = void (*)(const void* a, const void* b, void* y, int64_t n);

class Dots {
 public:
  struct Operands {
    const void *weights, *bias;
    void* c;
    const void* addend = nullptr;  // what a problem that accumulates adds, laid out as c; null: c
    const void* scales = nullptr;  // of quantized weights
  };

  // Problems with transpose_b that decline_gemv takes; x, its types and sizes are those of the first, and
  // only a problem on its own may have a batch. With `combine` they are two of one size, and C of the first
  // becomes combine(C of the first, C of the second).
  explicit Dots(std::span<const GemmProblem> problems, Combine combine = nullptr);
  // With the inner loops that quantized weights want (backends/cpu/quantized/quantized_rows.h).
  Dots(std::span<const GemmProblem> problems, Combine combine, const GemvKernel& kernel);

  int64_t scratch_bytes() const;
  void run(const void* x, std::span<const Operands> operands, std::byte* scratch) const;  // one per problem

 private:
  // The rows of a weight are cut into streams that lie far apart; a piece is a few neighbouring rows of each,
  // and pieces in order read every stream on. Rows left over belong to the last piece.
  struct Member {
    GemmProblem problem;
    EpilogueFunction epilogue;
    int64_t stream_rows, piece_rows, pieces;  // pieces of one matrix of the batch
    int64_t first;                            // of all pieces
  };
  struct Columns {
    int64_t first, count, streams, apart;
  };
  struct Rows {  // of x and C: a block
    int64_t first, count;
  };

  Member member_of(const GemmProblem& problem, int64_t first) const;
  int64_t rows_at_once() const;
  void pack(const void* x, const Rows& rows, float* packed) const;
  void compute(const float* x, const Rows& rows, std::span<const Operands> operands, int64_t piece) const;
  // Computes columns of C for one matrix of the batch of member `at`. The operands begin at the block's rows.
  void compute_columns(size_t at, const float* x, int64_t rows, const Operands* operands,
                       const Columns& columns) const;
  void sum_up(const Member& member, const float* x, int64_t rows, const Operands& operands,
              const Columns& columns, float* sums) const;
  int64_t batches_of_x() const { return x_.stride_a == 0 ? 1 : x_.batch; }
  int64_t x_floats() const { return padded_rows(rows_at_once()) * row_x_; }  // of one matrix of the batch

  GemmProblem x_;  // the first problem
  Combine combine_;
  GemvKernel kernel_;
  int64_t row_x_;  // packed elements of x per row
  std::vector<Member> members_;
  int64_t pieces_ = 0, bytes_ = 0;  // of weights
};

std::string decline_dots(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_dots(const GemmProblem& problem);

}  // namespace genesis::cpu
