// How a kernel file starts its kernels: the stream, and where a kernel reports data it cannot use. Included
// by backends/cuda/kernels/* (.cu and .cpp).
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "backends/kernel.h"

namespace genesis::cuda {

// In the host's pinned memory, one per plan; the runner looks at it when a run is done. Steps run in order, so the first
// report is the first step's.
struct DeviceFault {
  int32_t set = 0;  // 1: an index out of range; 2: an integer divided by zero
  int32_t step = 0;
  int64_t value = 0, limit = 0;  // value is outside [0, limit)
};

// Passed to kernels that read indices.
struct FaultReport {
  DeviceFault* fault = nullptr;
  int32_t step = 0;

#ifdef __CUDACC__
  __device__ void operator()(int64_t value, int64_t limit) const {
    if (atomicCAS(&fault->set, 0, 1)) return;
    fault->step = step;
    fault->value = value;
    fault->limit = limit;
  }
#endif
};

struct Launch {
  cudaStream_t stream = nullptr;
  FaultReport fault;
  int multiprocessors = 1;
};

inline const Launch& launch_of(const KernelContext& c) { return *static_cast<const Launch*>(c.launch); }

inline int64_t blocks_for(int64_t items, int64_t per_block) { return (items + per_block - 1) / per_block; }

#ifdef __CUDACC__

inline constexpr int kThreads = 256;

// kernel<<<blocks, threads, shared>>>(arguments...) on the step's stream; nothing when there are no blocks.
template <class... Parameters, class... Arguments>
void start(const KernelContext& c, void (*kernel)(Parameters...), int64_t blocks, int threads, size_t shared,
           Arguments... arguments) {
  if (blocks <= 0) return;
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared, launch_of(c).stream>>>(
      static_cast<Parameters>(arguments)...);
}

template <class Body>
__global__ void for_each_kernel(int64_t n, Body body) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) body(i);
}

// body(i) for i in [0, n), one thread each, in no order. `body` is a __device__ lambda.
template <class Body>
void for_each(const KernelContext& c, int64_t n, const Body& body) {
  const int64_t most = static_cast<int64_t>(launch_of(c).multiprocessors) * 32;
  start(c, for_each_kernel<Body>, std::min(blocks_for(n, kThreads), most), kThreads, 0, n, body);
}

#endif

}  // namespace genesis::cuda
