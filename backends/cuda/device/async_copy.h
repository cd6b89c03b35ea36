// Asynchronous copies of 16 bytes from global into shared memory (cp.async), for kernels that compute on one row
// while the next one is being loaded. A thread that reads back only what it copied itself needs no barrier, only
// wait_for_batches().
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace genesis::cuda {

#ifdef __CUDACC__

// Starts a copy of 16 bytes. Both addresses are multiples of 16.
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(global)
               : "memory");
}

// Returns the cache policy that copy_async_once() takes: the L2 cache evicts these lines first, so that it keeps data
// that later kernels read.
__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ void copy_async_once(void* shared, const void* global, uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(global), "l"(policy)
               : "memory");
}

// Copies 16 bytes to an address of shared memory, or writes zeros there if `there` is false; `global` must be a
// readable address in both cases. It takes no cache policy: given one, ptxas 13.0 may encode the policy's register in
// place of the address's, which the chip reports as an illegal instruction.
__device__ __forceinline__ void copy_or_zero(uint32_t shared, const void* global, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(there ? 16 : 0)
               : "memory");
}

// Ends a batch of copies; the batch may be empty.
__device__ __forceinline__ void end_batch() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all batches of this thread except the last kLeft have arrived.
template <int kLeft>
__device__ __forceinline__ void wait_for_batches() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// A barrier among `threads` threads (whole warps) that all pass the same `id`, 1 to 15; __syncthreads() uses id 0.
__device__ __forceinline__ void wait_for_threads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Arrives at that barrier without waiting for the other threads.
__device__ __forceinline__ void arrive_at_threads(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#endif

}  // namespace genesis::cuda
