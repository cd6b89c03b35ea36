// Running sums over a warp and over a block, for kernels that place or select elements.
#pragma once

#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// Returns the sum over this lane and the lanes before it.
template <class T>
__device__ __forceinline__ T warp_running_sum(T x) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int step = 1; step < 32; step *= 2) {
    const T below = __shfl_up_sync(~0u, x, step);
    if (lane >= step) x += below;
  }
  return x;
}

template <class T>
struct BlockScan {
  T before, total;  // over the threads before this one; over all threads
};

// All threads of a block of whole warps call it; x is an integer.
template <class T>
__device__ __forceinline__ BlockScan<T> block_scan(T x) {
  __shared__ T warp_sums[32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const T running = warp_running_sum(x);
  __syncthreads();  // until every thread has read warp_sums of the call before
  if (lane == 31) warp_sums[warp] = running;
  __syncthreads();
  T before = 0, total = 0;
  for (int w = 0; w < warps; ++w) {
    if (w < warp) before += warp_sums[w];
    total += warp_sums[w];
  }
  return {before + running - x, total};
}

#endif

}  // namespace genesis::cuda
