// A matrix product as the CUDA backend describes it, and where it finds its data, for all ways to make one (gemm.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "schema/core/dtype.h"
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
  bool can_use_pdl = false, early = false, independent = false;  // as launch.h has it; independent: b
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

}  // namespace genesis::cuda
