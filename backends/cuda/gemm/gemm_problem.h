// The description of a matrix product, and the addresses of its data, for all implementations of gemm.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "schema/core/dtype.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

// C[i] = act(op(A[i]) op(B[i]) + bias). With `accumulate`, C[i] = op(A[i]) op(B[i]) + bias + an addend laid out as C,
// without an activation. Everything is row-major: op(A) is [m, k] and op(B) is [k, n]; bias is [n] and has A's dtype.
// Low precision accumulates in f32; integers wrap.
struct GemmProblem {
  DType in = DType::f32, out = DType::f32;  // out: `in`, or f32 for 16-bit operands
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;                 // leading dimensions: elements between rows as stored
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between entries of the batch; 0 broadcasts
  bool transpose_a = false;                          // A is stored [k, m]
  bool transpose_b = false;                          // B is stored [n, k]
  bool has_bias = false;
  Activation activation = Activation::kNone;
  bool accumulate = false;
};

// The data of a product. `workspace` has gemm_workspace_bytes().
struct GemmData {
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;    // or the output of an LtProduct's sums
  const void* addend = nullptr;  // addend of `accumulate`; null: the old C
  std::byte* workspace = nullptr;
  cudaStream_t stream = nullptr;
  bool can_use_pdl = false, early = false, independent = false;  // see launch.h; `independent` is for b
};

// Returns the addend of a product with this data; null if there is none.
inline const void* addend_of(const GemmProblem& problem, const GemmData& data) {
  return !problem.accumulate ? nullptr : data.addend ? data.addend : data.c;
}

// Returns whether all buffers start at multiples of `alignment` bytes.
inline bool starts_at(uintptr_t alignment, const GemmData& d) {
  return ((reinterpret_cast<uintptr_t>(d.a) | reinterpret_cast<uintptr_t>(d.b) |
           reinterpret_cast<uintptr_t>(d.c) | reinterpret_cast<uintptr_t>(d.bias) |
           reinterpret_cast<uintptr_t>(d.addend)) %
          alignment) == 0;
}

}  // namespace genesis::cuda
