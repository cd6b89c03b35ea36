// Reductions of a row of f32, bf16 or f16: sums, the maximum, and the pair (maximum, sum of exponentials) that softmax and
// cross-entropy need, which reads the row from memory once. There are four independent accumulators; the order depends only on
// the length and the vector width.
#if defined(GENESIS_BACKENDS_CPU_ROW_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GENESIS_BACKENDS_CPU_ROW_REDUCE_INL_H_
#undef GENESIS_BACKENDS_CPU_ROW_REDUCE_INL_H_
#else
#define GENESIS_BACKENDS_CPU_ROW_REDUCE_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "backends/cpu/simd/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

// Returns the sum over a row of term(i, Full or Part), which must be zero in lanes outside the row.
template <class Term>
HWY_INLINE float sum_row(int64_t n, const Term& term) {
  Vec a = hn::Zero(kF32), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a = hn::Add(a, term(i, Full{}));
    b = hn::Add(b, term(i + kLanes, Full{}));
    c = hn::Add(c, term(i + 2 * kLanes, Full{}));
    d = hn::Add(d, term(i + 3 * kLanes, Full{}));
  }
  for (; i + kLanes <= n; i += kLanes) a = hn::Add(a, term(i, Full{}));
  if (i < n) b = hn::Add(b, term(i, Part{n - i}));
  return sum_lanes(hn::Add(hn::Add(a, b), hn::Add(c, d)));
}

// Returns the maximum of a row. It is unspecified if the row has a NaN; callers get the NaN from the exponentials.
template <class T>
HWY_INLINE float row_max(const T* x, int64_t n) {
  Vec a = hn::Set(kF32, -kInf), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a = hn::Max(a, load(x + i));
    b = hn::Max(b, load(x + i + kLanes));
    c = hn::Max(c, load(x + i + 2 * kLanes));
    d = hn::Max(d, load(x + i + 3 * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) a = hn::Max(a, load(x + i));
  float max = max_lanes(hn::Max(hn::Max(a, b), hn::Max(c, d)));
  for (; i < n; ++i) max = std::max(max, static_cast<float>(x[i]));
  return max;
}

struct MaxSum {
  float max = -kInf, sum = 0;  // sum of exp(scale (x - max))
};

// Works on blocks that fit the L1 cache, so that memory is read once.
template <class T>
MaxSum row_max_sum(const T* x, int64_t n, float scale = 1) {
  constexpr int64_t kBlock = 2048;
  const ExpScale exp_scale(scale);
  MaxSum row;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at);
    const float max = std::max(row_max(x + at, count), row.max);
    const Vec shift = hn::Set(kF32, max == -kInf ? 0.0f : max);  // only -inf so far: all are 0
    const float sum = sum_row(count, [&](int64_t i, auto part) {
      prefetch(x + at + kBlock + i);
      return only(exp_nonpositive(hn::Sub(load(x + at + i, part), shift), exp_scale), part);
    });
    row.sum = sum + (row.max == max ? row.sum : row.sum * std::exp(scale * (row.max - max)));
    row.max = max;
  }
  return row;
}

// Applies a scalar function to every lane, for rare steps.
template <class F>
HWY_INLINE Vec each_lane(Vec v, const F& f) {
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, kF32, lanes);
  for (float& lane : lanes) lane = f(lane);
  return hn::Load(kF32, lanes);
}

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
