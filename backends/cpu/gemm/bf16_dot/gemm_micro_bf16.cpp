// The register-tile kernel of bf16 on CPUs with AVX512_BF16, with intrinsics, since Highway 1.0.3 has no bf16 dot product. The
// tile is that of f32 on AVX-512; one step takes two neighbors along k.
#include "backends/cpu/gemm/gemm_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace genesis::cpu {
namespace {

// The same sizes as in gemm_micro.cpp on AVX-512. A tile of 14 rows and two vectors of 16 columns takes 28 of the 32 registers;
// the panels of A are padded to whole cache lines. `kAhead` is in steps of depth.
constexpr int kMr = 14, kNr = 32, kWidthA = 16, kAhead = 32;

// Computes one tile, [kMr, kNr]: c_tile = A B, plus the old c_tile if `add`. `depth` counts pairs of neighbors along k. a_panel
// is [depth, kWidthA] pairs of bf16, b_panel [depth, kNr] pairs; a row of c_tile is `ldc` elements after the one before it.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"))) void micro(
    int64_t depth, const void* a_panel, const void* b_panel, void* c_tile, int64_t ldc, bool add) {
  const float* __restrict a = static_cast<const float*>(a_panel);  // a pair of bf16 is moved as one float
  const float* __restrict b = static_cast<const float*>(b_panel);
  float* __restrict c = static_cast<float*>(c_tile);

  __m512 sum[kMr][2];
#pragma GCC unroll 14
  for (int i = 0; i < kMr; ++i) sum[i][0] = sum[i][1] = _mm512_setzero_ps();
  for (int64_t p = 0; p < depth; ++p, a += kWidthA, b += kNr) {
    _mm_prefetch(a + kAhead * kWidthA, _MM_HINT_T0);
    _mm_prefetch(b + kAhead * kNr, _MM_HINT_T0);
    _mm_prefetch(b + kAhead * kNr + 16, _MM_HINT_T0);
    const __m512bh b0 = (__m512bh)_mm512_load_ps(b), b1 = (__m512bh)_mm512_load_ps(b + 16);
#pragma GCC unroll 14
    for (int i = 0; i < kMr; ++i) {
      const __m512bh x = (__m512bh)_mm512_set1_ps(a[i]);
      sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, b0);
      sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, b1);
    }
  }
#pragma GCC unroll 14
  for (int i = 0; i < kMr; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      float* __restrict to = c + i * ldc + v * 16;
      _mm512_storeu_ps(to, add ? _mm512_add_ps(sum[i][v], _mm512_loadu_ps(to)) : sum[i][v]);
    }
  }
}

}  // namespace

MicroKernel micro_kernel_bf16() {
  if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512bw")) return {};
  return {"AVX512_BF16", DType::bf16, kMr, kNr, kWidthA, micro};
}

}  // namespace genesis::cpu
#else
namespace genesis::cpu {
MicroKernel micro_kernel_bf16() { return {}; }
}  // namespace genesis::cpu
#endif
