// Copies of 16 bytes from memory into shared memory that run while the thread goes on. A thread that reads
// back only what it copied itself needs no barrier, only wait. Used by device code that works on one row
// while the next is on its way.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace genesis::cuda {

#ifdef __CUDACC__

// Both aligned to 16 bytes.
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(global)
               : "memory");
}

// As copy_async, of what is not read again soon: `policy` is evict_first_policy(), by which it is the first
// to leave the second-level cache, and what was written stays for who reads it next.
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

// As copy_async to an address of shared memory, or zeros there; `global` is an address that may be read either way. It takes no
// cache policy: with one, ptxas 13.0 may name the policy's register instead of the address's, which the chip calls an illegal
// instruction.
__device__ __forceinline__ void copy_or_zero(uint32_t shared, const void* global, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(there ? 16 : 0)
               : "memory");
}

// Ends a batch of copies, which may be empty.
__device__ __forceinline__ void end_batch() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all batches of this thread but the last kLeft are there.
template <int kLeft>
__device__ __forceinline__ void wait_for_batches() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// A barrier among `threads` threads, whole warps, that all give the number `id`, 1 to 15; 0 is
// __syncthreads'.
__device__ __forceinline__ void wait_for_threads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// As one of them, without waiting for the others.
__device__ __forceinline__ void arrive_at_threads(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#endif

}  // namespace genesis::cuda
