// Computes few rows of x times the transposes of one or several weights [n, k]. All threads together read each weight once, where
// it lies. Several weights are layers that share x. Every element is one sum in one order, whatever the chunks, the threads and
// the other rows of x. Many rows of x are processed in blocks, so that the sums of a chunk stay in L1; each block reads the
// weights again.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemv/gemm_rows.h"

namespace genesis::cpu {

// y = f(a, b) element by element. All have the dtype of C; y may be a.
using Combine = void (*)(const void* a, const void* b, void* y, int64_t n);

class Dots {
 public:
  struct Operands {
    const void *weights, *bias;
    void* c;
    const void* addend = nullptr;  // added by a problem with `accumulate`, laid out as c; null = c
    const void* scales = nullptr;  // scales of quantized weights
  };

  // The problems must have transpose_b and be ones that decline_gemv() accepts. x, its dtypes and its sizes are those of the
  // first problem, and only a single problem may have a batch. With `combine` there are two problems of equal size, and C of the
  // first becomes combine(C of the first, C of the second).
  explicit Dots(std::span<const GemmProblem> problems, Combine combine = nullptr);
  // Uses the given inner loops, such as those for quantized weights (backends/cpu/quantized/quantized_rows.h).
  Dots(std::span<const GemmProblem> problems, Combine combine, const GemvKernel& kernel);

  int64_t scratch_bytes() const;
  void run(const void* x, std::span<const Operands> operands, std::byte* scratch) const;  // one per problem

 private:
  // One weight. Its rows are split into streams that lie far apart. A chunk is a few adjacent rows of each stream, and
  // chunks in order continue every stream. Remaining rows belong to the last chunk.
  struct Member {
    GemmProblem problem;
    EpilogueFunction epilogue;
    int64_t stream_rows, chunk_rows, chunks;  // chunks of one matrix of the batch
    int64_t first;                            // number of its first chunk, counted over all members
  };
  struct Columns {
    int64_t first, count, streams, apart;
  };
  struct Rows {  // a block of rows of x and C
    int64_t first, count;
  };

  Member member_of(const GemmProblem& problem, int64_t first) const;
  int64_t rows_at_once() const;
  void pack(const void* x, const Rows& rows, float* packed) const;
  void compute(const float* x, const Rows& rows, std::span<const Operands> operands, int64_t chunk) const;
  // Computes columns of C for one matrix of the batch of member `at`. The operands begin at the block's rows.
  void compute_columns(size_t at, const float* x, int64_t rows, const Operands* operands,
                       const Columns& columns) const;
  void sum_up(const Member& member, const float* x, int64_t rows, const Operands& operands,
              const Columns& columns, float* sums) const;
  int64_t batches_of_x() const { return x_.stride_a == 0 ? 1 : x_.batch; }
  int64_t x_floats() const { return padded_rows(rows_at_once()) * row_x_; }  // per matrix of the batch

  GemmProblem x_;  // the first problem
  Combine combine_;
  GemvKernel kernel_;
  int64_t row_x_;  // packed elements of x per row
  std::vector<Member> members_;
  int64_t chunks_ = 0, bytes_ = 0;  // bytes of all weights
};

std::string decline_dots(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_dots(const GemmProblem& problem);

}  // namespace genesis::cpu
