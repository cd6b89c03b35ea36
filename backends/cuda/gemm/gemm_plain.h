// Products without a library, and helpers for those with one.
#pragma once

#include "backends/cuda/gemm/gemm_problem.h"

namespace genesis::cuda {

// Accepts every problem and dtype: tiles in shared memory, no tensor cores.
void run_plain_gemm(const GemmProblem& problem, const GemmData& data);

// Computes x = activation(x) for the first n columns of dense [rows, ld].
void run_activation(Activation activation, DType dtype, void* x, int64_t rows, int64_t n, int64_t ld,
                    cudaStream_t stream);

// Writes values in [-1, 1) that differ from element to element; f16, bf16, f32 and f64.
void fill_with_noise(void* data, DType dtype, int64_t elements, cudaStream_t stream);

}  // namespace genesis::cuda
