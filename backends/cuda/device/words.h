// Sixteen bytes of elements as they are in memory. Two 16-bit elements share a register until they are used, where a
// Pack (packs.h) takes a register for each: this suits kernels that keep long slices of rows in registers.
#pragma once

#include "backends/cuda/device/packs.h"

namespace genesis::cuda {

#ifdef __CUDACC__

using Words = uint4;

// Reads the 16 bytes at an address of shared memory.
__device__ __forceinline__ Words read_pack(uint32_t address) {
  Words words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}

__device__ __forceinline__ uint32_t word_of(const Words& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}
__device__ __forceinline__ void set_word(Words& words, int i, uint32_t word) {
  (i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w) = word;
}

// Two 16-bit elements in a word: the first one is in the lower half.
template <class T>
__device__ __forceinline__ float low_of(uint32_t word) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __uint_as_float(word << 16);
  else
    return __half2float(__ushort_as_half(static_cast<unsigned short>(word)));
}
template <class T>
__device__ __forceinline__ float high_of(uint32_t word) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __uint_as_float(word & 0xffff0000u);
  else
    return __half2float(__ushort_as_half(static_cast<unsigned short>(word >> 16)));
}
// Rounds each value to nearest, ties to even.
template <class T>
__device__ __forceinline__ uint32_t pair_of(float low, float high) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(both);
  } else {
    const __half2 both = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(both);
  }
}

// Returns element i. `i` must be a constant at compile time: unroll the loops over it.
template <class T>
__device__ __forceinline__ float element_of(const Words& words, int i) {
  if constexpr (std::is_same_v<T, float>) return __uint_as_float(word_of(words, i));
  const uint32_t word = word_of(words, i / 2);
  return i % 2 == 0 ? low_of<T>(word) : high_of<T>(word);
}

template <class T>
__device__ __forceinline__ Pack<T, static_cast<int>(16 / sizeof(T))> pack_of(const Words& words) {
  Pack<T, static_cast<int>(16 / sizeof(T))> pack;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      pack.at[i] = __uint_as_float(word_of(words, i));
    } else {
      const auto low = static_cast<unsigned short>(word_of(words, i)),
                 high = static_cast<unsigned short>(word_of(words, i) >> 16);
      if constexpr (std::is_same_v<T, __half>) {
        pack.at[2 * i] = __ushort_as_half(low);
        pack.at[2 * i + 1] = __ushort_as_half(high);
      } else {
        pack.at[2 * i] = __ushort_as_bfloat16(low);
        pack.at[2 * i + 1] = __ushort_as_bfloat16(high);
      }
    }
  }
  return pack;
}

// Returns words with all elements -inf.
template <class T>
__device__ __forceinline__ Words lowest_words() {
  constexpr uint32_t kLowest = std::is_same_v<T, float>    ? 0xff800000u
                               : std::is_same_v<T, __half> ? 0xfc00fc00u
                                                           : 0xff80ff80u;
  return {kLowest, kLowest, kLowest, kLowest};
}

// Rounds each value to nearest, ties to even.
template <class T, int N>
__device__ __forceinline__ Words words_of(const float (&from)[N]) {
  static_assert(N * sizeof(T) == sizeof(Words));
  Words words;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if constexpr (std::is_same_v<T, float>)
      set_word(words, i, __float_as_uint(from[i]));
    else
      set_word(words, i, pair_of<T>(from[2 * i], from[2 * i + 1]));
  return words;
}

#endif

}  // namespace genesis::cuda
