// How a kernel file starts its kernels: the stream, and where a kernel reports data it cannot use. Included
// by backends/cuda/kernels/* (.cu and .cpp).
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "backends/kernel.h"

namespace genesis::cuda {

// In the host's pinned memory, one per plan; the runner looks at it when a run is done. Steps run in order,
// so the first report is the first step's.
struct DeviceFault {
  // 1: an index out of range; 2: an integer divided by zero; 3: a logit that is NaN; 4: a key_start that falls along its row
  int32_t set = 0;
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
  __device__ void nan_logit() const {
    if (!atomicCAS(&fault->set, 0, 3)) fault->step = step;
  }
  __device__ void falling_starts() const {
    if (!atomicCAS(&fault->set, 0, 4)) fault->step = step;
  }
#endif
};

struct Launch {
  cudaStream_t stream = nullptr;
  FaultReport fault;
  int multiprocessors = 1;
  bool can_use_pdl = false;    // what code_has_pdl() says
  bool early = false;          // start_with_pdl() may start kernels before those ahead of them have ended
  bool shares_memory = false;  // start_with_pdl(): give the multiprocessors' first cache to shared memory
  uint64_t independent = 0;    // bit i: nothing that this run has started may still write input i
};

inline const Launch& launch_of(const KernelContext& c) { return *static_cast<const Launch*>(c.launch); }

// Whether a kernel may read input i before pdl_wait().
inline bool is_independent(const KernelContext& c, int i) {
  return i < 64 && (launch_of(c).independent >> i & 1);
}

// Whether the machine code of this build that the current device runs contains the wait below. Where it does
// not (PTX of an older architecture), no kernel may start early.
bool code_has_pdl();

// How a kernel is told to start while those ahead of it still run, which hides what starting costs.
struct PdlLaunch {
  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attributes[2];

  PdlLaunch(const PdlLaunch&) = delete;  // config points into it
  PdlLaunch(const Launch& launch, dim3 blocks, dim3 threads, size_t shared) {
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    config.stream = launch.stream;
    config.attrs = attributes;
    config.numAttrs = !launch.early ? 0 : launch.shares_memory ? 2 : 1;
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    // Kernels that want different shares of the first cache cannot meet on one multiprocessor. Those that
    // stream through it need it: their outstanding loads occupy its lines.
    attributes[1].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[1].val.sharedMemCarveout = 100;
  }
};

// How a step starts another kernel behind one of its own, which is then all that it waits for.
inline Launch behind_own_kernel(const KernelContext& c) {
  Launch launch = launch_of(c);
  launch.early = launch.can_use_pdl;
  return launch;
}

// Shared memory that a block may have on the current device.
inline int shared_bytes_limit() {
  int device = 0, bytes = 48 << 10;
  if (cudaGetDevice(&device) == cudaSuccess)
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return bytes;
}

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

// What a kernel started by start_with_pdl() calls in every thread before it reads anything that is not independent
// and before it writes anything: memory is reused, and the kernels ahead may still read it. A block that
// touches nothing may end without it, but some block must wait: that a kernel has ended must mean that all
// kernels ahead of it have, because the next one waits for this one alone. Does nothing in a kernel started
// otherwise.
__device__ __forceinline__ void pdl_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the kernel behind this one start once all blocks have called it or ended. Early is good: what starts
// waits in pdl_wait(), and what it asks of memory until then is on its way.
__device__ __forceinline__ void pdl_launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// As start(), of a kernel that calls pdl_wait().
template <class... Parameters, class... Arguments>
void start_with_pdl(const Launch& launch, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                    size_t shared, Arguments... arguments) {
  if (blocks.x == 0) return;
  const PdlLaunch early(launch, blocks, threads, shared);
  cudaLaunchKernelEx(&early.config, kernel,
                     static_cast<Parameters>(arguments)...);  // the runner asks for errors
}
template <class... Parameters, class... Arguments>
void start_with_pdl(const KernelContext& c, void (*kernel)(Parameters...), int64_t blocks, int threads,
                    size_t shared, Arguments... arguments) {
  if (blocks > 0)
    start_with_pdl(launch_of(c), kernel, static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
                   shared, arguments...);
}

// Where a kernel that reads nothing ahead begins.
__device__ __forceinline__ void begin_in_order() {
  pdl_launch_dependents();
  pdl_wait();
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
