// Rows of f32, bf16 or f16 as vectors of f32, for the kernels that reduce and map rows (softmax, norms, losses, optimizers).
// Compiled once per instruction set: included after <hwy/highway.h>, outside any namespace. The last vector of a row may be
// partial; it never touches memory outside the row.
#if defined(GENESIS_BACKENDS_CPU_ROW_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GENESIS_BACKENDS_CPU_ROW_SIMD_INL_H_
#undef GENESIS_BACKENDS_CPU_ROW_SIMD_INL_H_
#else
#define GENESIS_BACKENDS_CPU_ROW_SIMD_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "schema/core/float16.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Vec = hn::Vec<F32>;
inline constexpr F32 kF32;
inline constexpr int64_t kLanes = hn::MaxLanes(F32());
inline constexpr float kInf = std::numeric_limits<float>::infinity();

// The lanes of a vector that belong to the row: all of them, or the first n.
struct Full {
  static constexpr int64_t lanes() { return kLanes; }
};
struct Part {
  int64_t n;
  int64_t lanes() const { return n; }
};

HWY_INLINE Vec load(const float* p) { return hn::LoadU(kF32, p); }
HWY_INLINE Vec load(const bf16* p) {
  const hn::Rebind<uint16_t, F32> half;
  const hn::Rebind<uint32_t, F32> word;
  const auto bits = hn::LoadU(half, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(kF32, hn::ShiftLeft<16>(hn::PromoteTo(word, bits)));
}
HWY_INLINE Vec load(const f16* p) {
  const hn::Rebind<hwy::float16_t, F32> half;
  return hn::PromoteTo(kF32, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
}

HWY_INLINE void store(Vec v, float* p) { hn::StoreU(v, kF32, p); }
// Rounds to nearest even. NaN stays NaN: arithmetic only returns quiet NaNs, whose upper half is not zero.
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, F32>> to_bf16(Vec v) {
  const hn::Rebind<uint16_t, F32> half;
  const hn::Rebind<uint32_t, F32> word;
  const auto u = hn::BitCast(word, v);
  const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(word, 1));
  const auto rounded = hn::Add(u, hn::Add(odd, hn::Set(word, 0x7fff)));
  const auto bits = hn::IfThenElse(hn::RebindMask(word, hn::IsNaN(v)), u, rounded);
  return hn::TruncateTo(half, hn::ShiftRight<16>(bits));
}
HWY_INLINE void store(Vec v, bf16* p) {
  const hn::Rebind<uint16_t, F32> half;
  hn::StoreU(to_bf16(v), half, reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE void store(Vec v, f16* p) {
  const hn::Rebind<hwy::float16_t, F32> half;
  hn::StoreU(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::float16_t*>(p));
}

template <class T>
HWY_INLINE Vec load(const T* p, Full, float = 0) {
  return load(p);
}
// Lanes outside the row hold `fill`.
template <class T>
HWY_INLINE Vec load(const T* p, Part part, float fill = 0) {
  HWY_ALIGN T lanes[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = i < part.n ? p[i] : T(fill);
  return load(lanes);
}

template <class T>
HWY_INLINE void store(Vec v, T* p, Full) {
  store(v, p);
}
template <class T>
HWY_INLINE void store(Vec v, T* p, Part part) {
  HWY_ALIGN T lanes[kLanes];
  store(v, lanes);
  std::memcpy(static_cast<void*>(p), lanes, static_cast<size_t>(part.n) * sizeof(T));
}

// Writes around the caches, for results larger than they are (streams() in row_jobs.h).
HWY_INLINE void stream(Vec v, float* p) { hn::Stream(v, kF32, p); }
HWY_INLINE void stream(Vec v, bf16* p) {
  const hn::Rebind<uint16_t, F32> half;
  hn::Stream(to_bf16(v), half, reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE void stream(Vec v, f16* p) { store(v, p); }

template <bool kStream, class T, class P>
HWY_INLINE void put(Vec v, T* p, P part) {
  if constexpr (kStream && std::is_same_v<P, Full>)
    stream(v, p);
  else
    store(v, p, part);
}

// Calls body(i, Full or Part) for the vectors of a row.
template <class Body>
HWY_INLINE void each_vector(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Full{});
  if (i < n) body(i, Part{n - i});
}

// Prefetches into the L2 cache what will be read soon, while the current row is computed. Any address is allowed.
HWY_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }

// Sets the lanes outside the row to zero, for a formula that does not map `fill` to zero.
HWY_INLINE Vec only(Vec v, Full) { return v; }
HWY_INLINE Vec only(Vec v, Part part) {
  return hn::IfThenElseZero(hn::FirstN(kF32, static_cast<size_t>(part.n)), v);
}

HWY_INLINE float sum_lanes(Vec v) { return hn::GetLane(hn::SumOfLanes(kF32, v)); }
HWY_INLINE float max_lanes(Vec v) { return hn::GetLane(hn::MaxOfLanes(kF32, v)); }

// Computes exp(scale * d) for d <= 0 and scale > 0: 0 below the range of f32, NaN for NaN. It is 2^n 2^f with |f| <= 1/2 and a
// quintic with a relative error of 1.1e-7; rounding scale * log2(e) adds 3e-8 times the exponent.
struct ExpScale {
  Vec factor, lowest;
  explicit ExpScale(float scale)
      : factor(hn::Set(kF32, scale * 1.44269504f)), lowest(hn::Set(kF32, kLowest / (scale * 1.44269504f))) {}
  static constexpr float kLowest = HWY_TARGET <= HWY_AVX3 ? -200.0f : -126.0f;
};
HWY_INLINE Vec exp2_quintic(Vec f) {
  Vec p = hn::MulAdd(hn::Set(kF32, 0.00132646586f), f, hn::Set(kF32, 0.00967156608f));
  p = hn::MulAdd(p, f, hn::Set(kF32, 0.0555073433f));
  p = hn::MulAdd(p, f, hn::Set(kF32, 0.240222409f));
  p = hn::MulAdd(p, f, hn::Set(kF32, 0.693147004f));
  return hn::MulAdd(p, f, hn::Set(kF32, 1.0f));
}
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE Vec exp_nonpositive(Vec d, const ExpScale& scale) {
  const Vec bounded = hn::Max(scale.lowest, d);  // Max returns its second operand if one is NaN
  const Vec n = hn::Round(hn::Mul(bounded, scale.factor));
  const Vec p = exp2_quintic(hn::MulSub(bounded, scale.factor, n));
  return Vec{_mm512_maskz_scalef_ps(__mmask16{0xffff}, p.raw, n.raw)};
}
#else
HWY_INLINE Vec exp_nonpositive(Vec d, const ExpScale& scale) {
  const auto tiny = hn::Lt(d, scale.lowest);
  const Vec bounded = hn::IfThenZeroElse(tiny, d);
  const Vec n = hn::Round(hn::Mul(bounded, scale.factor));
  const Vec p = exp2_quintic(hn::MulSub(bounded, scale.factor, n));
  const hn::RebindToSigned<F32> word;
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(word, n));
  const Vec power = hn::BitCast(kF32, hn::Add(hn::BitCast(word, p), exponent));
  return hn::IfThenZeroElse(tiny, hn::IfThenElse(hn::IsNaN(d), d, power));
}
#endif
HWY_INLINE Vec exp_nonpositive(Vec d) { return exp_nonpositive(d, ExpScale(1)); }

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
