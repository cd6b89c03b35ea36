// The kernel on AMX tiles (gemm_amx.h), with intrinsics, since Highway has none for AMX. Four tiles hold 32 x 32 sums, two tiles
// hold 32 rows of A and two hold 32 columns of B, each with 32 steps of k. After Intel's "Optimization Reference Manual", chapter
// on AMX.
#include "backends/cpu/gemm/amx/gemm_amx.h"
#include "backends/cpu/simd/amx.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace genesis::cpu {
namespace {

constexpr int kTile = 16, kRowBytes = 64, kTileBytes = kTile * kRowBytes;
constexpr int64_t kRowOfSums = kAmxLines * 4;  // bytes

// Configures the tiles. That takes as long as some tile products, so a task does it once.
__attribute__((target("amx-tile"))) void begin() {
  AmxShapes shapes;
  for (int tile = 0; tile < 8; ++tile) shapes.set(tile, kTile, kRowBytes);
  load_shapes(shapes);
}
__attribute__((target("amx-tile"))) void end() { _tile_release(); }

__attribute__((target("amx-tile,amx-bf16"))) void load_sums(const float* sums) {
  _tile_loadd(0, sums, kRowOfSums);
  _tile_loadd(1, sums + kTile, kRowOfSums);
  _tile_loadd(2, sums + kTile * kAmxLines, kRowOfSums);
  _tile_loadd(3, sums + kTile * kAmxLines + kTile, kRowOfSums);
}

__attribute__((target("amx-tile,amx-bf16"))) void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

__attribute__((target("amx-tile,amx-bf16"))) void store_sums(float* sums) {
  _tile_stored(0, sums, kRowOfSums);
  _tile_stored(1, sums + kTile, kRowOfSums);
  _tile_stored(2, sums + kTile * kAmxLines, kRowOfSums);
  _tile_stored(3, sums + kTile * kAmxLines + kTile, kRowOfSums);
}

__attribute__((target("amx-tile,amx-bf16"))) void multiply(int64_t blocks, const void* a_panel,
                                                           const void* b_panel, float* sums, bool add,
                                                           AmxAhead& ahead) {
  const auto *a = static_cast<const std::byte*>(a_panel), *b = static_cast<const std::byte*>(b_panel);
  if (add)
    load_sums(sums);
  else
    clear_sums();
  for (int64_t block = 0; block < blocks; ++block, a += 2 * kTileBytes, b += 2 * kTileBytes) {
    _tile_loadd(4, a, kRowBytes);
    _tile_loadd(6, b, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kTileBytes, kRowBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTileBytes, kRowBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    ahead.fetch();
  }
  store_sums(sums);
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void write_bf16(const float* sums, void* c,
                                                                                int64_t ldc, int64_t rows,
                                                                                int64_t columns) {
  auto* to = static_cast<uint16_t*>(c);
  const __mmask32 mask = columns >= kAmxLines ? ~0u : (1u << columns) - 1;
  for (int64_t row = 0; row < rows; ++row, sums += kAmxLines, to += ldc) {
    const __m512bh pairs = _mm512_cvtne2ps_pbh(_mm512_load_ps(sums + kTile), _mm512_load_ps(sums));
    _mm512_mask_storeu_epi16(to, mask, (__m512i)pairs);
  }
}

}  // namespace

AmxKernel amx_kernel() {
  if (!may_use_amx_bf16()) return {};
  return {multiply, __builtin_cpu_supports("avx512bf16") ? write_bf16 : nullptr, begin, end};
}

}  // namespace genesis::cpu
#else
namespace genesis::cpu {
AmxKernel amx_kernel() { return {}; }
}  // namespace genesis::cpu
#endif
