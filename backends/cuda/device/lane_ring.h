// Sixteen bytes on their way to a lane through a place of its own in shared memory: who reads only what it copied itself
// waits for nobody. Addresses are those of shared memory. Used by few_rows.cu and grouped_attention.cu.
#pragma once

#include "backends/cuda/device/words.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// Starts a copy, or zeros; `from` is an address that may be read either way. It takes no cache policy: with one, ptxas
// 13.0 may name the policy's register instead of the address's, which the chip calls an illegal instruction.
__device__ __forceinline__ void copy_or_zero(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0)
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
