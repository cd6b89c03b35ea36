// GEMVs on chips that copy into shared memory by themselves and start kernels early (compute capability 9.0): a block asks for
// all of its weights before it waits for x. Sums have the order and the bits of gemv/gemv.h. Used by gemm_list.cpp, for single
// products, and by kernels/nn/linear_gemv.cpp, for several weights in one start and for a norm ahead of them.
#pragma once

#include "backends/cuda/gemm/gemv/gemv.h"

namespace genesis::cuda {

// Why weights [n, k] do not fit shared memory as the kernel lays them there; empty: they do.
std::string prefetch_declines(DType dtype, bool swiglu, int64_t m, int64_t k);

// False, and nothing started, where they do not, or the chip is older. A norm is for one row of x.
bool start_prefetched_gemv(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const GemvStart& start);

// The row `gemv_prefetch` of gemm_list.cpp.
std::string prefetched_gemv_declines(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_prefetched_gemv(const GemmProblem& problem);

}  // namespace genesis::cuda
