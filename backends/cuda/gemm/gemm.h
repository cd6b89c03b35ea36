// The matrix product of the CUDA backend: one description, made ready once per step of a plan, then started
// as often as wanted. Used by the matmul, linear and linear_cross_entropy kernels. cuBLASLt does most of
// them; a few rows against a weight are read at the memory's speed by an own kernel; the plain kernel takes
// the rest.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schema/core/dtype.h"
#include "schema/graph/target.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

// C[i] = act(op(A[i]) op(B[i]) + bias), or op(A[i]) op(B[i]) + bias + an addend laid out as C with
// `accumulate`, which goes with no activation; everything row-major. op(A) is [m, k] and op(B) is [k, n];
// bias is [n], of A's dtype. Low precision accumulates in f32, integers wrap.
struct GemmProblem {
  DType in = DType::f32, out = DType::f32;  // out: `in`, or f32 for 16-bit operands
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;                 // elements between rows as stored
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between entries of the batch; 0 broadcasts
  bool transpose_a = false;                          // A is stored [k, m]
  bool transpose_b = false;                          // B is stored [n, k]
  bool has_bias = false;
  Activation activation = Activation::kNone;
  bool accumulate = false;
};

// Where a product finds its data. `workspace` has gemm_workspace_bytes().
struct GemmData {
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;    // or where an LtProduct's sums go
  const void* addend = nullptr;  // what `accumulate` adds; null: the old C
  std::byte* workspace = nullptr;
  cudaStream_t stream = nullptr;
  bool can_use_pdl = false, early = false, settled = false;  // as launch.h has it; settled: b
};

// What a product with this data adds; null: nothing.
inline const void* addend_of(const GemmProblem& problem, const GemmData& data) {
  return !problem.accumulate ? nullptr : data.addend ? data.addend : data.c;
}

// Whether all of it starts at multiples of so many bytes.
inline bool starts_at(uintptr_t alignment, const GemmData& d) {
  return ((reinterpret_cast<uintptr_t>(d.a) | reinterpret_cast<uintptr_t>(d.b) |
           reinterpret_cast<uintptr_t>(d.c) | reinterpret_cast<uintptr_t>(d.bias) |
           reinterpret_cast<uintptr_t>(d.addend)) %
          alignment) == 0;
}

class Gemm {
 public:
  virtual ~Gemm() = default;

  // By the first row of the list that takes the problem here and is not switched off; the last takes everything. The
  // device must be current. May time several ways (autotune.h). `disabled`: of the query of the node that the product is for.
  static std::shared_ptr<const Gemm> create(const GemmProblem& problem,
                                            const KernelNames* disabled = nullptr);
  // Without a library, and ready at once: for what hardly ever runs.
  static std::shared_ptr<const Gemm> create_plain(const GemmProblem& problem);

  // Only starts kernels.
  virtual void run(const GemmData& data) const = 0;
};

// One row of the list, best first. `decline` returns why it cannot run the problem, or an empty text; it knows this
// machine's chips, if there are any, and needs none.
struct GemmImplementation {
  const char* name;
  std::string (*decline)(const GemmProblem&);
  std::shared_ptr<const Gemm> (*create)(const GemmProblem&);
  int64_t workspace_bytes = 0;
  // Whether what it needs is here, which is asked where a product is made ready and not before; `settled_there` says so in a plan.
  std::string (*why_not_here)() = nullptr;
  const char* settled_there = "";
};

// Neither asks a GPU.
std::span<const GemmImplementation> gemm_implementations();
int64_t gemm_workspace_bytes(const GemmProblem& problem, const KernelNames* disabled = nullptr);
// What create() would take: "gemm.cublas_lt".
KernelChoice choose_gemm(const GemmProblem& problem, const KernelNames* disabled);

}  // namespace genesis::cuda
