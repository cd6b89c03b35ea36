// The size of the register tile for the current instruction set, shared by the kernels and by packing. Included once per Highway
// target.
#if defined(GENESIS_GEMM_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GENESIS_GEMM_TILE_INL_H
#undef GENESIS_GEMM_TILE_INL_H
#else
#define GENESIS_GEMM_TILE_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

// Rows of the tile: 28 of 32 registers are accumulators with AVX-512, else 12 of 16.
constexpr int kMr = HWY_TARGET <= HWY_AVX3 ? 14 : 6;

// Elements from one step of depth to the next in a panel of A. The gaps are worth it: stores never cross a cache line.
constexpr int kWidthA = HWY_TARGET <= HWY_AVX3 ? 16 : 8;

// Vectors per row of the tile. Packing needs panels of at least 4 lines, even if a vector is a scalar.
template <class T>
constexpr int tile_vectors() {
  return hwy::HWY_NAMESPACE::MaxLanes(hwy::HWY_NAMESPACE::ScalableTag<T>()) == 1 ? 4 : 2;
}

template <class T>
constexpr int kNr = tile_vectors<T>() *
                    static_cast<int>(hwy::HWY_NAMESPACE::MaxLanes(hwy::HWY_NAMESPACE::ScalableTag<T>()));

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
