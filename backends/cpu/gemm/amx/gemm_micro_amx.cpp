// The register-tile kernel of bf16 in AMX tiles, by intrinsics: Highway knows none. Used by gemm_packed.cpp through MicroKernel.
// Four tiles hold 32 x 32 sums, two 32 rows of A and two 32 columns of B, each of 16 steps (32 of k). After Intel's "Optimization
// Reference Manual", chapter on AMX.
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/simd/amx.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace genesis::cpu {
namespace {

constexpr int kTile = 16, kMr = 2 * kTile, kNr = 2 * kTile, kRowBytes = 64;
// Steps of which 32 rows of A and 32 columns of B fit the first cache together with what is on its way.
constexpr int kMaxDepth = 256;

// Tiles 0 to 3 are sums, 4 and 5 rows of A, 6 and 7 columns of B.
__attribute__((target("amx-tile"))) void shape_tiles(int steps) {
  AmxShapes shapes;
  for (int tile = 0; tile < 4; ++tile) shapes.set(tile, kTile, kRowBytes);
  for (int tile = 4; tile < 6; ++tile) shapes.set(tile, kTile, 4 * steps);
  for (int tile = 6; tile < 8; ++tile) shapes.set(tile, steps, kRowBytes);
  _tile_loadconfig(&shapes);
}

// Shaping takes as long as some products of tiles do, so a task does it once.
void begin() { shape_tiles(kTile); }
__attribute__((target("amx-tile"))) void end() { _tile_release(); }

__attribute__((target("amx-tile,amx-bf16"))) void load_sums(const float* c, int64_t ldc) {
  const int64_t stride = ldc * 4;
  _tile_loadd(0, c, stride);
  _tile_loadd(1, c + kTile, stride);
  _tile_loadd(2, c + kTile * ldc, stride);
  _tile_loadd(3, c + kTile * ldc + kTile, stride);
}

__attribute__((target("amx-tile,amx-bf16"))) void store_sums(float* c, int64_t ldc) {
  const int64_t stride = ldc * 4;
  _tile_stored(0, c, stride);
  _tile_stored(1, c + kTile, stride);
  _tile_stored(2, c + kTile * ldc, stride);
  _tile_stored(3, c + kTile * ldc + kTile, stride);
}

// `blocks` times `steps` of depth, for which tiles are shaped. A lies as PanelForm::kTiles says, B in steps.
__attribute__((target("amx-tile,amx-bf16"))) void multiply(int64_t blocks, int steps, const float* a,
                                                           const float* b, float* c, int64_t ldc, bool add) {
  if (add) {
    load_sums(c, ldc);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const int64_t row_of_a = 4 * steps, row_of_b = 4 * kNr;
  for (int64_t block = 0; block < blocks; ++block, a += kMr * steps, b += kNr * steps) {
    _tile_loadd(4, a, row_of_a);
    _tile_loadd(6, b, row_of_b);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kTile, row_of_b);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTile * steps, row_of_a);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  store_sums(c, ldc);
}

void micro(int64_t depth, const void* a_panel, const void* b_panel, void* c_tile, int64_t ldc, bool add) {
  const auto *a = static_cast<const float*>(a_panel), *b = static_cast<const float*>(b_panel);
  auto* c = static_cast<float*>(c_tile);
  const int64_t blocks = depth / kTile, whole = blocks * kTile;
  if (blocks > 0 || !add) multiply(blocks, kTile, a, b, c, ldc, add);
  if (whole == depth) return;
  const int rest = static_cast<int>(depth - whole);
  shape_tiles(rest);
  multiply(1, rest, a + whole * kMr, b + whole * kNr, c, ldc, true);
  shape_tiles(kTile);
}

}  // namespace

MicroKernel micro_kernel_amx() {
  if (!may_use_amx_bf16()) return {};
  MicroKernel kernel{"AMX_BF16", DType::bf16, kMr, kNr, kMr, micro, PanelForm::kTiles, kMaxDepth, begin, end};
  // Multiplying takes so little time that what each task fetches counts far more than with vectors.
  kernel.max_tile_rows = 256;
  kernel.max_tile_bytes = 256 << 10;
  kernel.cost_of_a = kernel.cost_of_b = 60;
  kernel.tasks_may_pack_b = false;
  return kernel;
}

}  // namespace genesis::cpu
#else
namespace genesis::cpu {
MicroKernel micro_kernel_amx() { return {}; }
}  // namespace genesis::cpu
#endif
