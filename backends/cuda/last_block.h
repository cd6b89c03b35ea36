// One launch instead of two: the block that finishes last joins what all of them made. Its counter is made
// with the step (counters()), starts at 0 and is back at 0 when the kernel ends.
#pragma once

#include "backends/cuda/runtime.h"

namespace genesis::cuda {

// Zeros, for prepare() of a kernel; on the current device.
inline std::shared_ptr<std::byte> counters(int64_t count) {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  return allocate(device, count * static_cast<int64_t>(sizeof(unsigned)));
}

#ifdef __CUDACC__

// Whether this is the last of `blocks` blocks to come here; then it sees what all of them wrote before. Every
// thread calls it.
__device__ inline bool is_last_block(unsigned* counter, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1u) == blocks - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

#endif

}  // namespace genesis::cuda
