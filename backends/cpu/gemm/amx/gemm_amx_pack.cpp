// Packs bf16 operands into panels of AMX tiles (gemm_amx.h), with intrinsics. A word is two bf16 neighbors along k. Each row of a
// tile of A holds one line; each row of a tile of B holds one word of every line. An operand stored the other way is transposed,
// 16 x 16 words at a time.
#include <algorithm>

#include "backends/cpu/gemm/amx/gemm_amx.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define GENESIS_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

namespace genesis::cpu {
namespace {

constexpr int kRows = 16;    // rows of a tile
constexpr int kAhead = 256;  // elements of a line to prefetch ahead
using Rows = __m512i[kRows];

// Transposes 4 x 4 words in each 128-bit block of four rows.
GENESIS_AVX512 inline void transpose_in_blocks(Rows& r) {
  Rows pairs;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; i += 4) {
    r[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
}

GENESIS_AVX512 inline void transpose(Rows& r) {
  constexpr int kEven = 0x88, kOdd = 0xdd;  // selects the even or the odd blocks of each operand
  transpose_in_blocks(r);
  Rows halves;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    halves[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], kEven);
    halves[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], kOdd);
    halves[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], kEven);
    halves[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], kOdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm512_shuffle_i32x4(halves[i], halves[i + 8], kEven);
    r[i + 8] = _mm512_shuffle_i32x4(halves[i], halves[i + 8], kOdd);
  }
}

// Reads one row per line, with the next `k` steps of each of the `lines` lines; zero beyond both. Masked loads touch no memory
// there.
GENESIS_AVX512 inline void read_along_k(const uint16_t* from, int64_t stride, int lines, int k, Rows& r) {
  const __mmask32 mask = k >= kAmxK ? ~0u : (1u << k) - 1;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    const uint16_t* line = from + (i < lines ? i : 0) * stride;
    _mm_prefetch(line + kAhead, _MM_HINT_T0);
    r[i] = _mm512_maskz_loadu_epi16(i < lines ? mask : 0, line);
  }
}

// Reads one row per two steps of k, with one word of each of the `lines` lines.
GENESIS_AVX512 inline void read_across_k(const uint16_t* from, int64_t stride, int lines, int k, Rows& r) {
  const auto mask = static_cast<__mmask16>(lines >= kRows ? ~0u : (1u << std::max(lines, 0)) - 1);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    const int even = 2 * i, odd = even + 1;
    _mm_prefetch(from + (even + kAmxK) * stride, _MM_HINT_T0);
    _mm_prefetch(from + (odd + kAmxK) * stride, _MM_HINT_T0);
    const __m512i low = _mm512_cvtepu16_epi32(
        _mm256_maskz_loadu_epi16(even < k ? mask : 0, from + (even < k ? even : 0) * stride));
    const __m512i high = _mm512_cvtepu16_epi32(
        _mm256_maskz_loadu_epi16(odd < k ? mask : 0, from + (odd < k ? odd : 0) * stride));
    r[i] = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
  }
}

template <bool kAlongK, bool kTransposed>
GENESIS_AVX512 void pack(const void* source, int64_t stride, int64_t count, int64_t k, void* panels,
                         int64_t panel_stride) {
  const auto* from = static_cast<const uint16_t*>(source);
  const int64_t panels_of_lines = (count + kAmxLines - 1) / kAmxLines, blocks = (k + kAmxK - 1) / kAmxK;
  // The inner loop runs along the direction that is contiguous in memory.
  for (int64_t index = 0; index < panels_of_lines * blocks; ++index) {
    const int64_t panel = kAlongK ? index / blocks : index % panels_of_lines;
    const int64_t p = (kAlongK ? index % blocks : index / panels_of_lines) * kAmxK;
    float* to = static_cast<float*>(panels) + panel * panel_stride + p / 2 * kAmxLines;
    for (int64_t line = panel * kAmxLines; line < (panel + 1) * kAmxLines;
         line += kRows, to += kRows * kRows) {
      const int lines = static_cast<int>(std::clamp<int64_t>(count - line, 0, kRows));
      const int steps = static_cast<int>(std::min<int64_t>(k - p, kAmxK));
      Rows rows;
      if constexpr (kAlongK)
        read_along_k(from + line * stride + p, stride, lines, steps, rows);
      else
        read_across_k(from + p * stride + line, stride, lines, steps, rows);
      if constexpr (kTransposed) transpose(rows);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) _mm512_store_si512(to + i * kRows, rows[i]);
    }
  }
}

bool has_avx512() { return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"); }

}  // namespace

PackFunction amx_pack_a(bool k_contiguous) {
  if (!has_avx512()) return nullptr;
  return k_contiguous ? pack<true, false> : pack<false, true>;
}

PackFunction amx_pack_b(bool k_contiguous) {
  if (!has_avx512()) return nullptr;
  return k_contiguous ? pack<true, true> : pack<false, false>;
}

}  // namespace genesis::cpu
#else
namespace genesis::cpu {
PackFunction amx_pack_a(bool) { return nullptr; }
PackFunction amx_pack_b(bool) { return nullptr; }
}  // namespace genesis::cpu
#endif
