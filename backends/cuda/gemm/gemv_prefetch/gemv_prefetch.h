// GEMVs on chips that copy into shared memory by themselves and start kernels early (compute capability 9.0): a block asks for
// all of its weights before it waits for x. Sums have the order and the bits of gemv/gemv.h. Single products are a row of
// gemm_ways.h; linear_gemv_prefetch.cpp has several weights in one start, and a norm ahead of them.
#pragma once

#include "backends/cuda/gemm/gemv/gemv.h"

namespace genesis::cuda {

// Why weights [n, k] do not fit shared memory as the kernel lays them there; empty: they do.
std::string prefetch_declines(DType dtype, bool swiglu, int64_t m, int64_t k);

// False, and nothing started, where they do not, or the chip is older. A norm is for one row of x.
bool start_prefetched_gemv(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const GemvStart& start);

}  // namespace genesis::cuda
