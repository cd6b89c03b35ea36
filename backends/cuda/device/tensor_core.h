// The tensor core product that every chip since compute capability 8.0 has, for operands that a warp holds in
// registers, and the loads that bring them there from shared memory. hopper/ has the larger products of that chip.
#pragma once

#include "backends/cuda/device/words.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// Returns the offset of pack `pack` (0 to 7, of 16 bytes) in row `row` of 128 bytes. The swizzle puts the same pack
// of eight neighboring rows into different banks.
__device__ __forceinline__ uint32_t swizzle_128(int row, int pack) {
  return static_cast<uint32_t>(row * 128 + ((pack ^ (row & 7)) << 4));
}

// Loads four blocks of 8x8 elements of 16 bits: lane l gives the shared-memory address of row l % 8 of block l / 8.
__device__ __forceinline__ void ldmatrix(uint32_t (&blocks)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_trans(uint32_t (&blocks)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(address)
               : "memory");
}

// Computes sums += a b over 16 elements of k, where a has 16 rows and b has 8 columns. Lane 4 * g + t holds the sums
// [g][2t], [g][2t + 1], [g + 8][2t] and [g + 8][2t + 1]. Its a0 and a2 hold two elements each of row g, a1 and a3 of
// row g + 8, b0 and b1 of column g; a0 and a1 have the same two k as b0, a2 and a3 the same as b1.
template <class T>
__device__ __forceinline__ void multiply_16x8(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                              uint32_t a3, uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The same over 32 elements of k. Lane 4 * g + t has eight consecutive elements each of rows g and g + 8 of a and of
// column g of b. The order of k does not matter as long as a and b have the same.
template <class T>
__device__ __forceinline__ void multiply_32(float (&sums)[4], const Words& low, const Words& high,
                                            const Words& b) {
  multiply_16x8<T>(sums, low.x, high.x, low.y, high.y, b.x, b.y);
  multiply_16x8<T>(sums, low.z, high.z, low.w, high.w, b.z, b.w);
}

#endif

}  // namespace genesis::cuda
