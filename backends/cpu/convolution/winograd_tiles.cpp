#include "backends/cpu/convolution/winograd_tiles.h"

#include "backends/cpu/simd/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convolution/winograd_tiles.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr D kD;
constexpr int64_t kLanes = hn::MaxLanes(D());
constexpr int64_t kIn = kWinogradIn, kOut = kWinogradOut;

HWY_INLINE V times(float factor, V x) { return hn::Mul(hn::Set(kD, factor), x); }
HWY_INLINE V plus(V x, float factor, V y) { return hn::MulAdd(hn::Set(kD, factor), y, x); }  // x + factor y

// The transposed matrix B of six pixels.
HWY_INLINE void of_pixels(V x0, V x1, V x2, V x3, V x4, V x5, V* y) {
  const V a = plus(x4, -4, x2), b = plus(x3, -4, x1), c = hn::Sub(x4, x2), d = times(2, hn::Sub(x3, x1));
  y[0] = plus(plus(x4, -5, x2), 4, x0);
  y[1] = hn::Add(a, b), y[2] = hn::Sub(a, b);
  y[3] = hn::Add(c, d), y[4] = hn::Sub(c, d);
  y[5] = plus(plus(x5, -5, x3), 4, x1);
}

// The matrix G of three weights.
HWY_INLINE void of_weights(V g0, V g1, V g2, V* y) {
  const V a = times(-1.0f / 6, hn::Add(g0, g2)), b = times(1.0f / 6, g1),
          c = plus(times(1.0f / 6, g2), 1.0f / 24, g0), d = times(1.0f / 12, g1);
  y[0] = times(0.25f, g0);
  y[1] = hn::Sub(a, b), y[2] = hn::Add(a, b);
  y[3] = hn::Add(c, d), y[4] = hn::Sub(c, d);
  y[5] = g2;
}

// The transposed matrix A of six terms.
HWY_INLINE void of_terms(V m0, V m1, V m2, V m3, V m4, V m5, V* y) {
  const V a = hn::Add(m1, m2), b = hn::Sub(m1, m2), c = hn::Add(m3, m4), d = hn::Sub(m3, m4);
  y[0] = hn::Add(hn::Add(m0, a), c);
  y[1] = plus(b, 2, d);
  y[2] = plus(a, 4, c);
  y[3] = plus(hn::Add(b, m5), 8, d);
}

void transform_pixels(const float* const* pixels, int64_t channels, float* to, int64_t pitch) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    V columns[kIn][kIn];  // by column, then term
    for (int64_t j = 0; j < kIn; ++j) {
      const auto at = [&](int64_t i) { return hn::LoadU(kD, pixels[i * kIn + j] + c); };
      of_pixels(at(0), at(1), at(2), at(3), at(4), at(5), columns[j]);
    }
    for (int64_t i = 0; i < kIn; ++i) {
      V y[kIn];
      of_pixels(columns[0][i], columns[1][i], columns[2][i], columns[3][i], columns[4][i], columns[5][i], y);
      for (int64_t j = 0; j < kIn; ++j) hn::StoreU(y[j], kD, to + (i * kIn + j) * pitch + c);
    }
  }
}

void transform_weights(const float* weights, int64_t in, int64_t panels, float* to, int64_t pitch) {
  for (int64_t panel = 0; panel < panels; ++panel, weights += 9 * in * kPanelOut, to += in * kPanelOut)
    for (int64_t o = 0; o < in * kPanelOut; o += kLanes) {
      V columns[3][kIn];
      for (int64_t j = 0; j < 3; ++j) {
        const auto at = [&](int64_t i) { return hn::LoadU(kD, weights + (i * 3 + j) * in * kPanelOut + o); };
        of_weights(at(0), at(1), at(2), columns[j]);
      }
      for (int64_t i = 0; i < kIn; ++i) {
        V y[kIn];
        of_weights(columns[0][i], columns[1][i], columns[2][i], y);
        for (int64_t j = 0; j < kIn; ++j) hn::StoreU(y[j], kD, to + (i * kIn + j) * pitch + o);
      }
    }
}

bool transform_sums(const float* terms, int64_t pitch, int64_t channels, float* sums) {
  V nothing = hn::Zero(kD);  // NaN where a sum is not finite: 0 times it
  for (int64_t c = 0; c < channels; c += kLanes) {
    V columns[kIn][kOut];
    for (int64_t j = 0; j < kIn; ++j) {
      const auto at = [&](int64_t i) { return hn::LoadU(kD, terms + (i * kIn + j) * pitch + c); };
      of_terms(at(0), at(1), at(2), at(3), at(4), at(5), columns[j]);
    }
    for (int64_t i = 0; i < kOut; ++i) {
      V y[kOut];
      of_terms(columns[0][i], columns[1][i], columns[2][i], columns[3][i], columns[4][i], columns[5][i], y);
      for (int64_t j = 0; j < kOut; ++j) {
        hn::StoreU(y[j], kD, sums + (i * kOut + j) * kTileOut + c);
        nothing = plus(nothing, 0, y[j]);
      }
    }
  }
  return hn::AllTrue(kD, hn::Eq(nothing, nothing));
}

WinogradFunctions functions() { return {transform_pixels, transform_weights, transform_sums}; }

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(functions);

WinogradFunctions winograd_functions() {
  static const WinogradFunctions kFunctions = HWY_DYNAMIC_DISPATCH(functions)();
  return kFunctions;
}

}  // namespace genesis::cpu
#endif
