// Sixteen bytes on their way to a lane through a place of its own in shared memory: who reads only what it copied itself
// waits for nobody. Addresses are those of shared memory. Used by few_rows.cu and grouped_attention.cu.
#pragma once

#include "backends/cuda/device/words.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// Starts a copy, or zeros; `from` is an address that may be read either way.
__device__ __forceinline__ void copy_or_zero(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
// Of memory that is read once; `policy` is evict_first_policy().
__device__ __forceinline__ void copy_once_or_zero(uint32_t to, const void* from, bool there,
                                                  uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0), "l"(policy)
               : "memory");
}

__device__ __forceinline__ Words read_words(uint32_t from) {
  Words words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(from)
               : "memory");
  return words;
}

#endif

}  // namespace genesis::cuda
