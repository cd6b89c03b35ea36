// The matrix product of the CPU backend: one description, an ordered list of implementations, one object that
// runs. Used by the matmul, linear, einsum and attention kernels. Results never depend on the number of
// threads: work is split by shape only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "schema/graph/weight_format.h"
#include "schema/graph/target.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cpu {

// C[b] = act(alpha * op(A[b]) op(B[b]) + bias), plus an addend laid out as C if `accumulate`; everything
// row-major. op(A) is [m, k] and op(B) is [k, n]; bias is [n]. Low precision accumulates in f32, f64 in f64,
// integers wrap.
struct GemmProblem {
  DType a = DType::f32, b = DType::f32, c = DType::f32;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;                 // elements between rows as stored
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between batches; 0 broadcasts A or B
  bool transpose_a = false;                          // A is stored [k, m]
  bool transpose_b = false;                          // B is stored [n, k]
  bool has_bias = false;
  DType bias = DType::f32;
  Activation activation = Activation::kNone;
  bool accumulate = false;
  double alpha = 1;
  // Of Dots alone (gemm_dots.h): B is the quants of such weights, [n, k] as stored, and `b` their dtype.
  WeightFormat b_format = WeightFormat::kPlain;
};

class Gemm {
 public:
  virtual ~Gemm() = default;

  // The first implementation of the list that takes the problem and is not switched off; the last takes
  // everything. `disabled`: of the query of the node that the product is for.
  static std::shared_ptr<const Gemm> create(const GemmProblem& problem,
                                            const KernelNames* disabled = nullptr);

  virtual int64_t scratch_bytes() const = 0;  // `scratch` below, aligned to 64 bytes

  // Uses tbb::parallel_for inside; allocates nothing; may be entered by any number of threads, each with its
  // scratch. `addend`: what `accumulate` adds, null for the old C.
  virtual void run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch,
                   const void* addend = nullptr) const = 0;

  const char* name() const { return name_; }  // of its row in the list, for logs and benches

 protected:
  explicit Gemm(const char* name) : name_(name) {}

 private:
  const char* name_;
};

// One row of the list, best first. `decline` returns why it cannot run the problem, or an empty text.
struct GemmImplementation {
  const char* name;
  std::string (*decline)(const GemmProblem&);
  std::shared_ptr<const Gemm> (*create)(const GemmProblem&);
};

std::span<const GemmImplementation> gemm_implementations();
// What create() would take: "gemm.packed".
KernelChoice choose_gemm(const GemmProblem& problem, const KernelNames* disabled);

}  // namespace genesis::cpu
