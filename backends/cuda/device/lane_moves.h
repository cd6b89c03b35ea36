// Moves of values between the lanes of a warp, whose number is not known before. All lanes call them.
#pragma once

#include "backends/cuda/device/reduce.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// Returns the value that this lane has.
template <class V>
__device__ __forceinline__ V from_lane(const V& v, int lane) {
  return __shfl_sync(~0u, v, lane);
}
// Returns the value of the lane below; lane 0 gets its own.
template <class V>
__device__ __forceinline__ V from_below(const V& v) {
  return __shfl_up_sync(~0u, v, 1);
}

#endif

}  // namespace genesis::cuda
