// GEMVs on chips with bulk copies into shared memory and early kernel starts (compute capability 9.0): a block loads
// all of its weights before it waits for x. Sums have the order and the bits of gemv/gemv.h. gemm_implementations.h has the row
// for single products; linear_gemv_prefetch.cpp handles several weights in one launch, and a norm ahead of them.
#pragma once

#include "backends/cuda/gemm/gemv/gemv.h"

namespace genesis::cuda {

// Returns why weights [n, k] do not fit into shared memory; empty if they do.
std::string prefetch_declines(DType dtype, bool swiglu, int64_t m, int64_t k);

// Returns false and starts nothing if they do not fit or the chip is older. A norm requires that x has one row.
bool start_prefetched_gemv(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const GemvStart& start);

}  // namespace genesis::cuda
