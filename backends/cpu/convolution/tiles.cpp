#include "backends/cpu/convolution/tiles.h"

#include "backends/cpu/simd/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/convolution/tiles.cpp"
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
// 8 x 3 accumulators, 3 columns and a weight are 28 of 32 registers with AVX-512; 4 x 3 with 16 registers are all of them.
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

HWY_INLINE V activated(V x, ConvolutionActivation activation) {
  const V zero = hn::Zero(kD), six = hn::Set(kD, 6.0f);
  switch (activation) {
    case ConvolutionActivation::kRelu:
      return hn::IfThenElse(hn::Lt(x, zero), zero, x);  // NaN stays NaN
    case ConvolutionActivation::kRelu6: {
      const V y = hn::IfThenElse(hn::Lt(x, zero), zero, x);
      return hn::IfThenElse(hn::Gt(y, six), six, y);
    }
    case ConvolutionActivation::kHardswish: {
      const V gate = hn::Min(hn::Max(hn::Add(x, hn::Set(kD, 3.0f)), zero), six);
      return hn::Mul(hn::Mul(x, gate), hn::Set(kD, 1.0f / 6));
    }
    default:
      return x;
  }
}

template <bool kWhole>
HWY_INLINE V load_some(const float* p, int64_t n) {
  if constexpr (kWhole) return hn::LoadU(kD, p);
  HWY_ALIGN float lanes[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = i < n ? p[i] : 0;
  return hn::Load(kD, lanes);
}
template <bool kWhole>
HWY_INLINE void store_some(V v, float* p, int64_t n) {
  if constexpr (kWhole) return hn::StoreU(v, kD, p);
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, kD, lanes);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

// Adds what is in memory, and applies the epilogue of row i to n elements that lie at `at` of the result.
template <bool kWhole>
HWY_INLINE void put(V sum, const ColumnTileProduct& t, int64_t i, int64_t at, int64_t n) {
  if (t.add) sum = hn::Add(sum, load_some<kWhole>(t.c + at, n));
  if (const Epilogue* e = t.epilogue) {
    if (e->scale) sum = hn::Mul(sum, hn::Set(kD, e->scale[i]));
    if (e->bias) sum = hn::Add(sum, hn::Set(kD, e->bias[i]));
    if (e->addend) sum = hn::Add(sum, load_some<kWhole>(e->addend + at, n));
    sum = activated(sum, e->activation);
  }
  store_some<kWhole>(sum, t.c + at, n);
}

constexpr int64_t kLineFloats = 16;  // floats of a cache line

template <int kTileRows>
HWY_INLINE void prefetch_rows(const float* rows, int64_t lda) {
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) __builtin_prefetch(rows + i * lda, 0, 2);
}

template <int kTileRows, int kVectors>
void multiply_tile(const ColumnTileProduct& t) {
  V sum[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Zero(kD);
  // Rows are reached from every third one, so that few addresses are kept in registers.
  constexpr int kBases = (kTileRows + 2) / 3;
  const float* base[kBases];
#pragma GCC unroll 3
  for (int i = 0; i < kBases; ++i) base[i] = t.a + 3 * i * t.lda;
  const float* HWY_RESTRICT b = t.b;
  for (int64_t p = 0; p < t.depth; ++p, b += kVectors * kLanes) {
    if (t.next && p % kLineFloats == 0) prefetch_rows<kTileRows>(t.next + p, t.lda);
    V column[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) column[v] = hn::Load(kD, b + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
      const V weight = hn::Set(kD, base[i / 3][i % 3 * t.lda]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(weight, column[v], sum[i][v]);
    }
#pragma GCC unroll 3
    for (int i = 0; i < kBases; ++i) ++base[i];
  }
  const int64_t last = t.columns - (kVectors - 1) * kLanes;
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors - 1; ++v) put<true>(sum[i][v], t, i, i * t.ldc + v * kLanes, kLanes);
    const int64_t at = i * t.ldc + (kVectors - 1) * kLanes;
    if (last == kLanes)
      put<true>(sum[i][kVectors - 1], t, i, at, kLanes);
    else
      put<false>(sum[i][kVectors - 1], t, i, at, last);
  }
}

template <int kVectors>
void multiply_rows(ColumnTileProduct t) {
  if (t.rows == kRows) return multiply_tile<kRows, kVectors>(t);
  const Epilogue* all = t.epilogue;
  for (int i = 0; i < t.rows; ++i, t.a += t.lda, t.c += t.ldc) {
    const Epilogue one = all ? all->behind(i, i * t.ldc) : Epilogue{};
    if (all) t.epilogue = &one;
    multiply_tile<1, kVectors>(t);
  }
}

void multiply(const ColumnTileProduct& t) {
  if (t.vectors == 3) return multiply_rows<3>(t);
  t.vectors == 2 ? multiply_rows<2>(t) : multiply_rows<1>(t);
}

// Sums the products of one column with kTileRows rows at a time, in one vector for each row.
template <int kTileRows>
void dot_rows(const ColumnTileProduct& t, const float* HWY_RESTRICT column, int64_t j) {
  V sum[kTileRows];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) sum[i] = hn::Zero(kD);
  int64_t p = 0;
  for (; p + kLanes <= t.depth; p += kLanes) {
    const V x = hn::LoadU(kD, column + p);
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) sum[i] = hn::MulAdd(hn::LoadU(kD, t.a + i * t.lda + p), x, sum[i]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i) {
    float all = hn::GetLane(hn::SumOfLanes(kD, sum[i]));
    for (int64_t q = p; q < t.depth; ++q) all += t.a[i * t.lda + q] * column[q];
    put<false>(hn::Set(kD, all), t, i, i * t.ldc + j, 1);
  }
}

void dots(const ColumnTileProduct& t, int64_t ldb) {
  for (int64_t j = 0; j < t.columns; ++j) {
    if (t.rows == kRows) {
      dot_rows<kRows>(t, t.b + j * ldb, j);
      continue;
    }
    ColumnTileProduct one = t;
    for (int i = 0; i < t.rows; ++i, one.a += t.lda, one.c += t.ldc) {
      const Epilogue epilogue = t.epilogue ? t.epilogue->behind(i, i * t.ldc) : Epilogue{};
      if (t.epilogue) one.epilogue = &epilogue;
      dot_rows<1>(one, t.b + j * ldb, j);
    }
  }
}

// Copies whole vectors, which may write beyond a run: the next run or term is written later.
template <bool kExact>
HWY_INLINE void copy_run(const float* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + (kExact ? kLanes : 1) <= n; i += kLanes) hn::StoreU(hn::LoadU(kD, from + i), kD, to + i);
  if constexpr (kExact)
    for (; i < n; ++i) to[i] = from[i];
}

template <bool kExact>
void pack_terms(const ColumnSource& source, std::span<const Run> runs, int64_t k, int64_t depth,
                int64_t width, float* to) {
  const auto taps = static_cast<int64_t>(source.taps.size());
  const float* channel = source.planes + k / taps * source.channel;
  int64_t tap = k % taps;
  for (int64_t p = 0; p < depth; ++p, to += width) {
    const float* from = channel + source.taps[static_cast<size_t>(tap)];
    for (const Run& run : runs) copy_run<kExact>(from + run.from, run.size, to + run.to);
    if (++tap < taps) continue;
    tap = 0;
    channel += source.channel;
  }
}

void pack(const ColumnSource& source, std::span<const Run> runs, int64_t k, int64_t depth, int64_t width,
          float* to) {
  source.is_exact ? pack_terms<true>(source, runs, k, depth, width, to)
                  : pack_terms<false>(source, runs, k, depth, width, to);
}

template <class Combine>
HWY_INLINE void combine_taps(const float* planes, std::span<const int64_t> taps, int64_t count, float* to,
                             float start, const Combine& combine) {
  for (int64_t i = 0; i < count; i += 4 * kLanes) {
    V a = hn::Set(kD, start), b = a, c = a, d = a;
    for (size_t t = 0; t < taps.size(); ++t) {
      const float* from = planes + taps[t] + i;
      a = combine(a, hn::LoadU(kD, from), t);
      b = combine(b, hn::LoadU(kD, from + kLanes), t);
      c = combine(c, hn::LoadU(kD, from + 2 * kLanes), t);
      d = combine(d, hn::LoadU(kD, from + 3 * kLanes), t);
    }
    hn::StoreU(a, kD, to + i);
    hn::StoreU(b, kD, to + i + kLanes);
    hn::StoreU(c, kD, to + i + 2 * kLanes);
    hn::StoreU(d, kD, to + i + 3 * kLanes);
  }
}

void sum(const float* planes, std::span<const int64_t> taps, const float* weights, int64_t count, float* to) {
  combine_taps(planes, taps, count, to, 0,
               [&](V all, V x, size_t t) { return hn::MulAdd(hn::Set(kD, weights[t]), x, all); });
}

void greatest(const float* planes, std::span<const int64_t> taps, int64_t count, float* to) {
  combine_taps(planes, taps, count, to, -HUGE_VALF, [&](V all, V x, size_t) {
    return hn::IfThenElse(hn::Or(hn::Gt(x, all), hn::IsNaN(x)), x, all);
  });
}

void finish(const float* sums, const Epilogue& epilogue, int64_t n, float* y) {
  ColumnTileProduct t{.c = y, .epilogue = &epilogue};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) put<true>(hn::LoadU(kD, sums + i), t, 0, i, kLanes);
  if (i < n) put<false>(load_some<false>(sums + i, n - i), t, 0, i, n - i);
}

TileFunctions functions() {
  return {kRows, static_cast<int>(kLanes), multiply, dots, pack, sum, greatest, finish};
}

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(functions);

TileFunctions tile_functions() {
  static const TileFunctions kFunctions = HWY_DYNAMIC_DISPATCH(functions)();
  return kFunctions;
}

}  // namespace genesis::cpu
#endif
