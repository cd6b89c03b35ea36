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

#endif

}  // namespace genesis::cuda
