// Products without a library, and what goes around those with one. Used by gemm.cpp and autotune.cpp.
#pragma once

#include <vector>

#include "backends/cuda/gemm/gemm_problem.h"

namespace genesis::cuda {

// Every problem, every dtype: tiles in shared memory, no tensor cores.
void run_plain_gemm(const GemmProblem& problem, const GemmData& data);

// x = activation(x) over dense [rows, ld] of which n columns count.
void run_activation(Activation activation, DType dtype, void* x, int64_t rows, int64_t n, int64_t ld,
                    cudaStream_t stream);

// Values in [-1, 1) that differ from element to element. f16, bf16, f32 and f64.
void fill_with_noise(void* data, DType dtype, int64_t elements, cudaStream_t stream);

// y [m, n] = activation(x [m, k] weight [n, k]^T + bias), plus the addend, for a few rows: weight is read
// once, at the memory's speed, 16 bytes at a time. How k is split among warps depends on k alone, so that a
// result has the same bits whatever it is computed beside.
constexpr int64_t kMaxGemvRows = 8;
bool gemv_takes(const GemmProblem& problem);
void run_gemv(const GemmProblem& problem, const GemmData& data);

// Where they start, as launch.h has it. settled: all weights are there before the kernels ahead have ended.
struct GemvStart {
  cudaStream_t stream = nullptr;
  bool can_use_pdl = false, early = false, settled = false;
};

// Several weights over one x in one start. All problems differ in n and ldc alone.
struct GemvWeight {
  const void *weight = nullptr, *bias = nullptr;
  void* y = nullptr;
  int64_t n = 0;
};
void run_gemv(const GemmProblem& common, const void* x, const std::vector<GemvWeight>& layers,
              const GemvStart& start);
// y = silu(gate) * up, with gate and up rounded to the dtype first: the bits of two products and a swiglu.
void run_gemv_swiglu(const GemmProblem& common, const void* x, const GemvWeight& gate, const GemvWeight& up,
                     const GemvStart& start);

// Either, of rms_norm(x) with a weight [k] of x's dtype; x is one row. False, and nothing started, where no
// kernel does both.
struct GemvNorm {
  const void* weight = nullptr;
  double eps = 0;
};
bool try_gemv_after_norm(const GemmProblem& common, const void* x, const GemvNorm& norm,
                         const std::vector<GemvWeight>& layers, bool swiglu, const GemvStart& start);

}  // namespace genesis::cuda
