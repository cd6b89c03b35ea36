#include "backends/cpu/convolution/pixel_tiles.h"

#include <algorithm>

#include "backends/cpu/simd/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convolution/pixel_tiles.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>

#include "backends/cpu/simd/simd_math.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr D kD;
constexpr int64_t kLanes = hn::MaxLanes(D());
constexpr int kPanelVectors = static_cast<int>(kPanelOut / kLanes);
// Sums of 7 pixels by 4 panels, the weights of a term and a pixel's number are 33 of AVX-512's registers less one that is memory;
// 6 pixels by one panel of two vectors are 15 of 16 with AVX2.
constexpr bool kIsWide = HWY_TARGET <= HWY_AVX3;
constexpr int kPixels = kIsWide ? 7 : kLanes == 8 ? 6 : 3;
constexpr int kPanelsAtOnce = kIsWide ? 4 : 1;
// Panels of a call. Where registers hold the sums of one, the call multiplies them in turn, and its rows are listed once.
constexpr int kPanels = 4;
// Weights that are fetched ahead, in floats: those of 32 terms, which are multiplied in the time that another core's cache or memory
// takes to answer.
constexpr int64_t kAhead = 32 * kPanelOut;

template <bool kWhole>
HWY_INLINE V load_some(const float* p, int64_t n) {
  if constexpr (kWhole) return hn::LoadU(kD, p);
  if constexpr (kIsWide) return hn::MaskedLoad(hn::FirstN(kD, static_cast<size_t>(n)), kD, p);
  HWY_ALIGN float lanes[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = i < n ? p[i] : 0;
  return hn::Load(kD, lanes);
}
template <bool kWhole>
HWY_INLINE void store_some(V v, float* p, int64_t n) {
  if constexpr (kWhole) return hn::StoreU(v, kD, p);
  if constexpr (kIsWide) return hn::BlendedStore(v, hn::FirstN(kD, static_cast<size_t>(n)), kD, p);
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, kD, lanes);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

HWY_INLINE V at_least_zero(V x) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(kD)), hn::Zero(kD), x);
}  // NaN stays NaN

HWY_INLINE V activated(V x, ConvolutionActivation activation) {
  const V six = hn::Set(kD, 6.0f);
  switch (activation) {
    case ConvolutionActivation::kRelu:
      return at_least_zero(x);
    case ConvolutionActivation::kRelu6: {
      const V y = at_least_zero(x);
      return hn::IfThenElse(hn::Gt(y, six), six, y);
    }
    case ConvolutionActivation::kHardswish: {
      const V gate = hn::Min(hn::Max(hn::Add(x, hn::Set(kD, 3.0f)), hn::Zero(kD)), six);
      return hn::Mul(hn::Mul(x, gate), hn::Set(kD, 1.0f / 6));
    }
    case ConvolutionActivation::kSilu:
      return simd::silu(simd::VFloat(x)).v;
    case ConvolutionActivation::kGelu:
      return simd::gelu(simd::VFloat(x)).v;
    case ConvolutionActivation::kGeluTanh:
      return simd::gelu_tanh(simd::VFloat(x)).v;
    default:
      return x;
  }
}

template <bool kWhole>
HWY_INLINE V finished(V x, int64_t at, int64_t column, int64_t n, const Epilogue& e,
                      ConvolutionActivation activation) {
  if (e.scale) x = hn::Mul(x, load_some<kWhole>(e.scale + column, n));
  if (e.bias) x = hn::Add(x, load_some<kWhole>(e.bias + column, n));
  if (e.addend) x = hn::Add(x, load_some<kWhole>(e.addend + at, n));
  return activated(x, activation);
}

// Activations that need no registers but their operand's.
constexpr bool finishes(ConvolutionActivation activation) {
  return activation <= ConvolutionActivation::kHardswish;
}

// Writes the columns from `first` on.
template <ConvolutionActivation kActivation, int kTilePixels, int kVectors>
HWY_INLINE void write_results(const Results& r, int64_t first, V (&sum)[kTilePixels][kVectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const int64_t column = first + v * kLanes, n = r.columns - column;
    if (n >= kLanes) {
#pragma GCC unroll 8
      for (int i = 0; i < kTilePixels; ++i)
        hn::StoreU(finished<true>(sum[i][v], i * r.pitch + column, column, n, r.epilogue, kActivation), kD,
                   r.y + i * r.pitch + column);
    } else if (n > 0) {
#pragma GCC unroll 8
      for (int i = 0; i < kTilePixels; ++i)
        store_some<false>(
            finished<false>(sum[i][v], i * r.pitch + column, column, n, r.epilogue, kActivation),
            r.y + i * r.pitch + column, n);
    }
  }
}

template <int kTilePixels, int kVectors>
HWY_INLINE void write_results(const Results& r, int64_t first, V (&sum)[kTilePixels][kVectors]) {
  using enum ConvolutionActivation;
  switch (r.epilogue.activation) {
    case kRelu:
      return write_results<kRelu>(r, first, sum);
    case kRelu6:
      return write_results<kRelu6>(r, first, sum);
    case kHardswish:
      return write_results<kHardswish>(r, first, sum);
    default:
      return write_results<kNone>(r, first, sum);
  }
}

// Multiplies by the panels from `first` on.
template <int kTilePixels, int kTilePanels>
void multiply_tile(const PixelTile& t, int first) {
  constexpr int kVectors = kTilePanels * kPanelVectors;
  V sum[kTilePixels][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kTilePixels; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Zero(kD);
  const float* HWY_RESTRICT weights = t.weights + first * t.panel;
  const float* const* rows = t.rows;
  for (int64_t tap = 0; tap < t.taps; ++tap, rows += kPixels) {
    const float* row[kTilePixels];
#pragma GCC unroll 8
    for (int i = 0; i < kTilePixels; ++i) row[i] = rows[i];
    for (int64_t p = 0; p < t.depth; ++p, weights += kPanelOut) {
      V column[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        column[v] = hn::LoadU(kD, weights + v / kPanelVectors * t.panel + v % kPanelVectors * kLanes);
      if constexpr (kTilePixels == kPixels)
#pragma GCC unroll 4
        for (int panel = 0; panel < kTilePanels; ++panel)
          __builtin_prefetch(weights + panel * t.panel + kAhead);
#pragma GCC unroll 8
      for (int i = 0; i < kTilePixels; ++i) {
        const V number = hn::Set(kD, row[i][p]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(number, column[v], sum[i][v]);
      }
    }
  }
  if constexpr (kTilePixels == kPixels)
    if (!t.sums) return write_results(t.results, first * kPanelOut, sum);
#pragma GCC unroll 8
  for (int i = 0; i < kTilePixels; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(sum[i][v], kD, t.sums + i * kTileOut + first * kPanelOut + v * kLanes);
}

template <int kTilePanels>
void multiply_panels(const PixelTile& t, int first = 0) {
  if (t.pixels == 1) return multiply_tile<1, kTilePanels>(t, first);
  t.pixels <= (kPixels + 1) / 2 ? multiply_tile<(kPixels + 1) / 2, kTilePanels>(t, first)
                                : multiply_tile<kPixels, kTilePanels>(t, first);
}

void multiply(const PixelTile& t) {
  if constexpr (kPanelsAtOnce == 4) {
    if (t.panels == 4) return multiply_panels<4>(t);
    if (t.panels == 3) return multiply_panels<3>(t);
    if (t.panels == 2) return multiply_panels<2>(t);
  }
  for (int panel = 0; panel < t.panels; ++panel) multiply_panels<1>(t, panel);
}

template <bool kWhole>
HWY_INLINE void finish_vector(const float* sums, int64_t at, int64_t column, int64_t n, const Epilogue& e,
                              ConvolutionActivation activation, float* y) {
  store_some<kWhole>(finished<kWhole>(hn::LoadU(kD, sums), at, column, n, e, activation), y + at, n);
}

// The activation is a constant in each instance, so that the loop has none of its branches.
template <ConvolutionActivation kActivation>
void finish_rows(const float* sums, int64_t pixels, int64_t columns, const Epilogue& e, float* y,
                 int64_t pitch) {
  for (int64_t i = 0; i < pixels; ++i, sums += kTileOut) {
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes)
      finish_vector<true>(sums + c, i * pitch + c, c, kLanes, e, kActivation, y);
    if (c < columns) finish_vector<false>(sums + c, i * pitch + c, c, columns - c, e, kActivation, y);
  }
}

void finish(const float* sums, int64_t pixels, int64_t columns, const Epilogue& e, float* y, int64_t pitch) {
  using enum ConvolutionActivation;
  constexpr decltype(&finish_rows<kNone>) kFinish[] = {
      finish_rows<kNone>, finish_rows<kRelu>, finish_rows<kRelu6>,   finish_rows<kHardswish>,
      finish_rows<kSilu>, finish_rows<kGelu>, finish_rows<kGeluTanh>};
  kFinish[static_cast<size_t>(e.activation)](sums, pixels, columns, e, y, pitch);
}

template <ChannelSum kSum>
HWY_INLINE V combined(V all, V value, V weight) {
  if constexpr (kSum == ChannelSum::kWeighted) return hn::MulAdd(weight, value, all);
  if constexpr (kSum == ChannelSum::kPlain) return hn::Add(all, value);
  return hn::IfThenElse(hn::Or(hn::Gt(value, all), hn::IsNaN(value)), value, all);
}

// Combines kVectors vectors of channels from `channel` on, so that the addresses of a tap serve several loads.
template <ChannelSum kSum, int kOutputs, int kVectors, bool kWhole>
HWY_INLINE void combine_vectors(const ChannelWindow& w, int64_t first, int64_t channel, float* to,
                                int64_t pitch) {
  constexpr bool kIsWeighted = kSum == ChannelSum::kWeighted;
  const int64_t n = std::min(kLanes, w.channels - channel);
  const float *x = w.x + first * w.step + channel, *weights[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = channel + v * kLanes;
    weights[v] = kIsWeighted ? w.weights + at / kPanelOut * w.panel + at % kPanelOut : nullptr;
  }
  V sum[kOutputs][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kOutputs; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sum[i][v] = hn::Set(kD, kSum == ChannelSum::kGreatest ? -HUGE_VALF : 0.0f);
  for (int64_t t = 0; t < w.taps; ++t) {
    const float* from = x + w.offsets[t];
    V weight[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      weight[v] = kIsWeighted ? hn::LoadU(kD, weights[v] + w.places[t] * kPanelOut) : hn::Zero(kD);
#pragma GCC unroll 4
    for (int i = 0; i < kOutputs; ++i, from += w.step)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sum[i][v] = combined<kSum>(sum[i][v], load_some<kWhole>(from + v * kLanes, n), weight[v]);
  }
  if constexpr (kIsWeighted)
    if (finishes(w.epilogue.activation)) {
      const int64_t at = first * w.channels + channel;
      return write_results({w.epilogue.behind(channel, at), w.y + at, w.channels, w.channels - channel}, 0, sum);
    }
#pragma GCC unroll 4
  for (int i = 0; i < kOutputs; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kSum == ChannelSum::kPlain) sum[i][v] = hn::Mul(sum[i][v], hn::Set(kD, w.factor));
      store_some<kWhole || kIsWeighted>(sum[i][v], to + i * pitch + v * kLanes, n);
    }
}

// Weighted sums pass through a buffer if an epilogue follows that takes many registers.
template <ChannelSum kSum, int kOutputs>
void combine_outputs(const ChannelWindow& w, int64_t first) {
  constexpr bool kFinishes = kSum == ChannelSum::kWeighted;
  HWY_ALIGN float sums[kOutputs * kTileOut];
  for (int64_t block = 0; block < w.channels; block += kTileOut) {
    const int64_t columns = std::min(kTileOut, w.channels - block);
    float* y = w.y + first * w.channels + block;
    float* to = kFinishes ? sums : y;
    const int64_t pitch = kFinishes ? kTileOut : w.channels;
    int64_t c = 0;
    // Eight sums hide the time that an addition takes; single outputs stand at the edges of a row.
    if constexpr (kOutputs < 4)
      for (; c + 4 * kLanes <= columns; c += 4 * kLanes)
        combine_vectors<kSum, kOutputs, 4, true>(w, first, block + c, to + c, pitch);
    for (; c + 2 * kLanes <= columns; c += 2 * kLanes)
      combine_vectors<kSum, kOutputs, 2, true>(w, first, block + c, to + c, pitch);
    for (; c + kLanes <= columns; c += kLanes)
      combine_vectors<kSum, kOutputs, 1, true>(w, first, block + c, to + c, pitch);
    if (c < columns) combine_vectors<kSum, kOutputs, 1, false>(w, first, block + c, to + c, pitch);
    if (kFinishes && !finishes(w.epilogue.activation))
      finish(sums, kOutputs, columns, w.epilogue.behind(block, first * w.channels + block), y, w.channels);
  }
}

template <ChannelSum kSum>
void combine_all(const ChannelWindow& w) {
  int64_t i = 0;
  for (; i + 4 <= w.outputs; i += 4) combine_outputs<kSum, 4>(w, i);
  if (i + 2 <= w.outputs) combine_outputs<kSum, 2>(w, i), i += 2;
  if (i < w.outputs) combine_outputs<kSum, 1>(w, i);
}

void combine(const ChannelWindow& w) {
  if (w.sum == ChannelSum::kWeighted) return combine_all<ChannelSum::kWeighted>(w);
  w.sum == ChannelSum::kPlain ? combine_all<ChannelSum::kPlain>(w) : combine_all<ChannelSum::kGreatest>(w);
}

PixelFunctions functions() { return {kPixels, kPanels, multiply, finishes, finish, combine}; }

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(functions);

PixelFunctions pixel_functions() {
  static const PixelFunctions kFunctions = HWY_DYNAMIC_DISPATCH(functions)();
  return kFunctions;
}

}  // namespace genesis::cpu
#endif
