// The greatest number of a warp, by one instruction where the chip has it.
#pragma once

#include <cstdint>

#include "backends/cuda/device/reduce.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// All lanes of a warp call it and get the greatest x.
__device__ __forceinline__ uint32_t warp_greatest(uint32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, x);
#else
  return reduce_lanes(x, kLanes, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
#endif
}

#endif

}  // namespace genesis::cuda
