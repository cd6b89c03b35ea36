// Register-tile kernels in f32 and f64 for every instruction set, written with Highway. The tile fills the register file: all
// accumulators stay in registers over the whole depth.
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/simd/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/gemm_micro.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include "backends/cpu/gemm/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kAhead = 32;  // steps of depth to prefetch ahead into L1: more than the latency of L3

// Prefetches each cache line once. With AVX2 a step already has 12 multiply-adds and 8 loads, and prefetches take load slots too.
// There a line of B holds two vectors, and the hardware prefetches A, which lies in the L2 cache.
template <class T>
HWY_INLINE void prefetch_step(const T* a, const T* b) {
  constexpr int kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  constexpr int kStride = HWY_TARGET == HWY_AVX2 ? 64 / sizeof(T) : kLanes;
  if constexpr (HWY_TARGET != HWY_AVX2) hwy::Prefetch(a + kAhead * kWidthA);
#pragma GCC unroll 4
  for (int at = 0; at < kNr<T>; at += kStride) hwy::Prefetch(b + kAhead * kNr<T> + at);
}

template <class T>
void micro(int64_t depth, const void* a_panel, const void* b_panel, void* c_tile, int64_t ldc, bool add) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kLanes = hn::MaxLanes(d), kVectors = tile_vectors<T>();
  const T* HWY_RESTRICT a = static_cast<const T*>(a_panel);
  const T* HWY_RESTRICT b = static_cast<const T*>(b_panel);
  T* HWY_RESTRICT c = static_cast<T*>(c_tile);

  V sum[kMr][kVectors];
#pragma GCC unroll 14
  for (int i = 0; i < kMr; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Zero(d);
  }
  for (int64_t p = 0; p < depth; ++p, a += kWidthA, b += kNr<T>) {
    prefetch_step(a, b);
    V row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = hn::Load(d, b + v * kLanes);
#pragma GCC unroll 14
    for (int i = 0; i < kMr; ++i) {
      const V x = hn::Set(d, a[i]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(x, row[v], sum[i][v]);
    }
  }
#pragma GCC unroll 14
  for (int i = 0; i < kMr; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      T* HWY_RESTRICT to = c + i * ldc + v * kLanes;
      hn::StoreU(add ? hn::Add(sum[i][v], hn::LoadU(d, to)) : sum[i][v], d, to);
    }
  }
}

template <class T>
MicroKernel kernel_for() {
  MicroKernel kernel{hwy::TargetName(HWY_TARGET), dtype_of<T>(), kMr, kNr<T>, kWidthA, micro<T>};
  if (HWY_TARGET == HWY_AVX2) {
    // Packed rows, the rows that come next and some panels of B fit an L2 cache of 512 KB together.
    kernel.max_tile_rows = 48;
    kernel.fetches_a = true;
  }
  return kernel;
}

MicroKernel kernel_f32() { return kernel_for<float>(); }
MicroKernel kernel_f64() { return kernel_for<double>(); }

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(kernel_f32);
HWY_EXPORT(kernel_f64);

MicroKernel micro_kernel_f32() { return HWY_DYNAMIC_DISPATCH(kernel_f32)(); }
MicroKernel micro_kernel_f64() { return HWY_DYNAMIC_DISPATCH(kernel_f64)(); }

}  // namespace genesis::cpu
#endif
