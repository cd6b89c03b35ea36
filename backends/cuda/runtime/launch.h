// Launches kernels on the step's stream, and lets them report data that they cannot use. Every kernel file includes
// this.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "backends/kernel.h"

namespace genesis::cuda {

// A fault that a kernel reports, in the host's pinned memory, one per plan; the runner reads it at the end of a run.
// Steps run in order, so the first report comes from the first step that failed.
struct DeviceFault {
  // 1: an index out of range; 2: an integer divided by zero; 3: a logit that is NaN; 4: a key_start that decreases
  // along its row
  int32_t set = 0;
  int32_t step = 0;
  int64_t value = 0, limit = 0;  // value is outside [0, limit)
};

// Passed to kernels that can fail because of their data, to report a fault.
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
  bool can_use_pdl = false;    // the value of code_has_pdl()
  bool early = false;          // start_with_pdl() may start kernels before those ahead have ended
  bool shares_memory = false;  // start_with_pdl() configures the L1 cache as shared memory
  uint64_t independent = 0;    // bit i: no kernel that this run has started may still write input i
};

inline const Launch& launch_of(const KernelContext& c) { return *static_cast<const Launch*>(c.launch); }

// Returns whether a kernel may read input i before pdl_wait().
inline bool is_independent(const KernelContext& c, int i) {
  return i < 64 && (launch_of(c).independent >> i & 1);
}

// Returns whether the machine code that the current device runs contains the wait of pdl_wait(). If not (PTX of an
// older architecture), no kernel may start early.
bool code_has_pdl();

// Launch attributes by which a kernel starts while the kernels ahead still run (programmatic dependent launch), which
// hides its launch latency.
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
    // Kernels with different carve-outs of the L1 cache cannot run on one multiprocessor at the same time. Kernels
    // that stream through the L1 cache need it: their outstanding loads occupy its lines.
    attributes[1].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[1].val.sharedMemCarveout = 100;
  }
};

// Returns the launch for a second kernel of a step, which only waits for the step's own first kernel.
inline Launch behind_own_kernel(const KernelContext& c) {
  Launch launch = launch_of(c);
  launch.early = launch.can_use_pdl;
  return launch;
}

// Returns the bytes of shared memory that a block may have on the current device.
inline int shared_bytes_limit() {
  int device = 0, bytes = 48 << 10;
  if (cudaGetDevice(&device) == cudaSuccess)
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return bytes;
}

inline int64_t blocks_for(int64_t items, int64_t per_block) { return (items + per_block - 1) / per_block; }

#ifdef __CUDACC__

inline constexpr int kThreads = 256;

// Launches kernel<<<blocks, threads, shared>>>(arguments...) on the step's stream; does nothing if `blocks` is 0.
template <class... Parameters, class... Arguments>
void start(const KernelContext& c, void (*kernel)(Parameters...), int64_t blocks, int threads, size_t shared,
           Arguments... arguments) {
  if (blocks <= 0) return;
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared, launch_of(c).stream>>>(
      static_cast<Parameters>(arguments)...);
}

// Waits until the kernels ahead have ended. Every thread of a kernel launched by start_with_pdl() calls it before it
// reads anything that is not independent and before it writes anything: memory is reused, and the kernels ahead may
// still read it. A block that accesses nothing may end without it, but some block must wait: the next kernel waits
// for this one only, so the end of this kernel must imply that all kernels ahead have ended. Does nothing in a kernel
// launched otherwise.
__device__ __forceinline__ void pdl_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel start once all blocks of this one have called this or ended. Call it early: the next kernel
// waits in pdl_wait(), and its independent loads are in flight until then.
__device__ __forceinline__ void pdl_launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Like start(), for a kernel that calls pdl_wait().
template <class... Parameters, class... Arguments>
void start_with_pdl(const Launch& launch, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                    size_t shared, Arguments... arguments) {
  if (blocks.x == 0) return;
  const PdlLaunch early(launch, blocks, threads, shared);
  cudaLaunchKernelEx(&early.config, kernel,
                     static_cast<Parameters>(arguments)...);  // the runner checks for errors
}
template <class... Parameters, class... Arguments>
void start_with_pdl(const KernelContext& c, void (*kernel)(Parameters...), int64_t blocks, int threads,
                    size_t shared, Arguments... arguments) {
  if (blocks > 0)
    start_with_pdl(launch_of(c), kernel, static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
                   shared, arguments...);
}

// Begins a kernel that has no independent input to read early.
__device__ __forceinline__ void begin_in_order() {
  pdl_launch_dependents();
  pdl_wait();
}

template <class Body>
__global__ void for_each_kernel(int64_t n, Body body) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) body(i);
}

// Runs body(i) for i in [0, n), one thread each, in no order. `body` is a __device__ lambda.
template <class Body>
void for_each(const KernelContext& c, int64_t n, const Body& body) {
  const int64_t most = static_cast<int64_t>(launch_of(c).multiprocessors) * 32;
  start(c, for_each_kernel<Body>, std::min(blocks_for(n, kThreads), most), kThreads, 0, n, body);
}

#endif

}  // namespace genesis::cuda
