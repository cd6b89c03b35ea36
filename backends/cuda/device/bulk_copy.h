// Bulk copies into shared memory (cp.async.bulk) and the mbarriers on which they report completion (compute
// capability 9.0). The functions compile to nothing for older chips, which never start the kernels that use them.
#pragma once

#include "backends/cuda/device/async_copy.h"

namespace genesis::cuda {

#ifdef __CUDACC__

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// A phase of the barrier completes after `arrivals` arrivals and after all the bytes that those arrivals announced.
__device__ __forceinline__ void init_barrier([[maybe_unused]] uint64_t* barrier,
                                             [[maybe_unused]] uint32_t arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
#endif
}

// The thread that initialized barriers calls this before other threads or copies use them.
__device__ __forceinline__ void let_copies_see_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Arrives once and announces that `bytes` more bytes must come before the phase completes.
__device__ __forceinline__ void expect_bytes([[maybe_unused]] uint64_t* barrier,
                                             [[maybe_unused]] uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
#endif
}

__device__ __forceinline__ void arrive([[maybe_unused]] uint64_t* barrier, [[maybe_unused]] uint32_t times) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(times)
               : "memory");
#endif
}

// Waits until the phase with this parity is complete. The first phase has parity 0, so a wait for parity 1 on a new
// barrier returns at once.
__device__ __forceinline__ void wait_for_phase([[maybe_unused]] uint64_t* barrier,
                                               [[maybe_unused]] uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
#endif
}

// Addresses and `bytes` are multiples of 16.
__device__ __forceinline__ void copy_to_shared([[maybe_unused]] void* to, [[maybe_unused]] const void* from,
                                               [[maybe_unused]] uint32_t bytes,
                                               [[maybe_unused]] uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
#endif
}

// Like copy_to_shared(), for memory that is read only once; `policy` comes from evict_first_policy().
__device__ __forceinline__ void stream_to_shared([[maybe_unused]] void* to, [[maybe_unused]] const void* from,
                                                 [[maybe_unused]] uint32_t bytes,
                                                 [[maybe_unused]] uint64_t* barrier,
                                                 [[maybe_unused]] uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
#endif
}

// Prefetches memory into the L2 cache. The address and `bytes` are multiples of 16, and `bytes` is not 0.
__device__ __forceinline__ void prefetch_into_cache([[maybe_unused]] const void* from,
                                                    [[maybe_unused]] uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
#endif
}

#endif

}  // namespace genesis::cuda
