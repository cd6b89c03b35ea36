// Transcendental functions of f32 vectors, within a few units in the last place over the whole range, and the formulas of
// schema/ops/elementwise/formulas.h for vectors. Included once per Highway target, like simd.h. The polynomials are minimax fits
// made for this file; the range reductions are the classical ones of Cody and Waite.
#if defined(GENESIS_BACKENDS_CPU_SIMD_MATH_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GENESIS_BACKENDS_CPU_SIMD_MATH_H_
#undef GENESIS_BACKENDS_CPU_SIMD_MATH_H_
#else
#define GENESIS_BACKENDS_CPU_SIMD_MATH_H_
#endif

#include <cmath>

#include "backends/cpu/simd/piece_tables.h"
#include "backends/cpu/simd/simd.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE::simd {

// c0 + x (c1 + x (c2 + ...))
template <class... C>
HWY_INLINE VFloat polynomial(VFloat x, double c0, C... rest) {
  if constexpr (sizeof...(rest) == 0)
    return VFloat(c0);
  else
    return fma(polynomial(x, rest...), x, VFloat(c0));
}

HWY_INLINE VInt to_int(VFloat x) { return hn::ConvertTo(kInt, x.v); }
HWY_INLINE VFloat to_float(VInt x) { return hn::ConvertTo(kFloat, x); }
HWY_INLINE VFloat power_of_two(VInt n) {  // n in [-126, 127]
  return hn::BitCast(kFloat, hn::ShiftLeft<23>(hn::Add(n, hn::Set(kInt, 127))));
}
// For integral n: scale() is x * 2^n for n in [-252, 254], rounded once. scale_down() is for x near 1 and n <= 0; results below
// 2^-126 may become 0; `shifted` is n + kRounder. power() is 2^n for n in [-126, 127].
constexpr double kRounder = 12582912.0;  // 1.5 * 2^23: adding it rounds to an integer, in the low bits
#if HWY_TARGET == HWY_AVX3
HWY_INLINE VFloat scale(VFloat x, VFloat n) { return hn::Vec<FloatTag>{_mm512_scalef_ps(x.v.raw, n.v.raw)}; }
HWY_INLINE VFloat scale_down(VFloat x, VFloat n, VFloat) { return scale(x, n); }
HWY_INLINE VFloat power(VFloat n) { return scale(VFloat(1), n); }
#else
HWY_INLINE VFloat scale(VFloat x, VFloat n) {
  const VInt whole = to_int(n), half = hn::ShiftRight<1>(whole);
  return x * power_of_two(half) * power_of_two(hn::Sub(whole, half));
}
HWY_INLINE VFloat scale_down(VFloat x, VFloat n, VFloat shifted) {
  const VInt bits = hn::Add(hn::BitCast(kInt, x.v), hn::ShiftLeft<23>(hn::BitCast(kInt, shifted.v)));
  return hn::IfThenZeroElse((n < VFloat(-126)).m, hn::BitCast(kFloat, bits));
}
HWY_INLINE VFloat power(VFloat n) { return power_of_two(to_int(n)); }
#endif

// Splits x = n ln2 + r with |r| <= ln2 / 2.
struct ExpParts {
  VFloat r, n;
};
HWY_INLINE ExpParts split_exp(VFloat x) {
  const VFloat n = round(x * VFloat(1.44269504088896341));
  const VFloat high = fma(n, VFloat(-0.693359375), x);  // the constant has few bits, so the product is exact
  return {fma(n, VFloat(2.12194440e-4), high), n};
}
// Returns exp(r) - 1 on the reduced range; exp_reduced() returns exp(r).
HWY_INLINE VFloat expm1_reduced(VFloat r) {
  return fma(r * r, polynomial(r, 0.49999994, 0.166665152, 0.041668456, 0.00836941879, 0.00138131424), r);
}
HWY_INLINE VFloat exp_reduced(VFloat r) {
  return polynomial(r, 1.0, 1.0, 0.49999994, 0.166665152, 0.041668456, 0.00836941879, 0.00138131424);
}
HWY_INLINE VFloat limit(VFloat x, double low, double high) {  // NaN stays NaN
  const VFloat up = select(x < VFloat(low), VFloat(low), x);
  return select(up > VFloat(high), VFloat(high), up);
}

#if HWY_TARGET == HWY_AVX3
// Returns entry `which` (its low bits) of a table of sixteen numbers held in one register. It costs less than a multiply-add and
// uses other ports; a table of 32 numbers would cost the same.
HWY_INLINE VFloat look_up(const float (&table)[16], VFloat which) {
  const auto index = hn::BitCast(kInt, which.v);
  return hn::Vec<FloatTag>{_mm512_permutexvar_ps(index.raw, load(table).v.raw)};
}
// Evaluates a function given by 16 polynomials (piece_tables.py).
template <size_t kRows>
HWY_INLINE VFloat in_pieces(const float (&table)[kRows][16], VFloat a, VFloat piece) {
  const VFloat t = a - look_up(table[0], piece);
  VFloat y = look_up(table[kRows - 1], piece);
  for (size_t k = kRows - 1; k-- > 1;) y = fma(y, t, look_up(table[k], piece));
  return y;
}

// Returns exp(x), with x = n ln2 + r for a multiple n of 1/16 and |r| <= ln2 / 32.
HWY_INLINE VFloat exp_by_table(VFloat x) {
  const VFloat shifted = fma(x, VFloat(1.44269504088896341), VFloat(kRounder / 16)),
               n = shifted - VFloat(kRounder / 16);
  const VFloat r = fma(n, VFloat(2.12194440e-4), fma(n, VFloat(-0.693359375), x));
  const VFloat power = look_up(kPowers[0], shifted), lost = look_up(kPowers[1], shifted);
  const VFloat y = fma(fma(power, r, lost), polynomial(r, 1, 0.5, 0.166666667), power);
  return scale(y, n);  // scales by the integral part of n
}
#endif

HWY_INLINE VFloat exp(VFloat x) {
  x = at_most(VFloat(90), at_least(VFloat(-105), x));
#if HWY_TARGET == HWY_AVX3
  return exp_by_table(x);
#else
  const auto [r, n] = split_exp(x);
  return scale(exp_reduced(r), n);
#endif
}

// exp for x <= 0; results below 2^-126 may become 0. The result for NaN is unspecified.
HWY_INLINE VFloat exp_nonpositive(VFloat x) {
  x = at_least(VFloat(-200), x);
#if HWY_TARGET == HWY_AVX3
  return exp_by_table(x);
#else
  const VFloat shifted = fma(x, VFloat(1.44269504088896341), VFloat(kRounder)),
               n = shifted - VFloat(kRounder);
  const VFloat r = fma(n, VFloat(2.12194440e-4), fma(n, VFloat(-0.693359375), x));
  return scale_down(exp_reduced(r), n, shifted);
#endif
}

// exp(-(x + correction) / 2) for x in [0, 1e6] and a small correction, with as few multiplications as possible: the constants
// include the half and the sign.
HWY_INLINE VFloat exp_minus_half(VFloat x, VFloat correction) {
  const VFloat shifted = fma(x, VFloat(-0.72134752044448170), VFloat(kRounder)),
               n = shifted - VFloat(kRounder);
  const VFloat r = fma(n, VFloat(-4.24388880e-4), fma(n, VFloat(1.38671875), x)) + correction;
  const VFloat p =
      polynomial(r, 1, -0.5, 0.124999985, -0.020833144, 0.0026042785, -0.000261544337, 2.1583035e-05);
  return scale_down(p, n, shifted);
}

// expm1 for x in [-30, 89]; the result for NaN is unspecified. Uses half of the power, since 2^128 is out of range.
HWY_INLINE VFloat expm1_between(VFloat x) {
  const auto [r, n] = split_exp(x);
  const VFloat half = power(n - VFloat(1));
  const VFloat y = fma(expm1_reduced(r), half, half - VFloat(0.5));
  return y + y;
}
HWY_INLINE VFloat expm1(VFloat x) {
  return select(abs(x) > VFloat(0), expm1_between(limit(x, -30.0, 89.0)), x);
}

HWY_INLINE VFloat log(VFloat x) {
  const VMask tiny = x < VFloat(1.17549435e-38);
  const VFloat normal = select(tiny, x * VFloat(8388608.0), x);
  // The exponent is taken relative to sqrt(1/2), so that the mantissa lies in [sqrt(1/2), sqrt(2)).
  const VInt bits = hn::BitCast(kInt, normal.v), offset = hn::Sub(bits, hn::Set(kInt, 0x3f3504f3));
  const VInt exponent = hn::ShiftRight<23>(offset);
  const VFloat mantissa = hn::BitCast(kFloat, hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  const VFloat e = to_float(exponent) - select(tiny, VFloat(23), VFloat(0));
  const VFloat f = mantissa - VFloat(1), ff = f * f;
  const VFloat p = polynomial(f, 0.333333313, -0.250008374, 0.200012922, -0.166227639, 0.141996995,
                              -0.131641984, 0.127790883, -0.0764603764);
  const VFloat low = fma(f * ff, p, e * VFloat(-2.12194440e-4));
  const VFloat near = fma(e, VFloat(0.693359375), fma(ff, VFloat(-0.5), low) + f);
  const VFloat infinity(HUGE_VAL);
  const VFloat positive = select(x == infinity, infinity, near);
  return select(x > VFloat(0), positive, select(x == VFloat(0), -infinity, VFloat(NAN)));
}

// log(u) with u = 1 + x, corrected by what rounding u lost.
HWY_INLINE VFloat log1p(VFloat x) {
  const VFloat u = x + VFloat(1), lost = (x - (u - VFloat(1))) / u;
  const VMask plain = u > VFloat(0), huge = x > VFloat(1e30);
  const VFloat near = select(huge, log(u), log(u) + lost);
  return select(x == VFloat(0), x, select(plain, near, log(u)));
}

#if HWY_TARGET == HWY_AVX3
HWY_INLINE VFloat tanh(VFloat x) {
  const VFloat a = at_most(VFloat(kTanhEnd), abs(x));
  return copysign(in_pieces(kTanh, a, fma(a, VFloat(15.6) - a, VFloat(4 * kRounder))), x);
}
#else
// tanh |x| = expm1(2|x|) / (expm1(2|x|) + 2)
HWY_INLINE VFloat tanh(VFloat x) {
  const VFloat a = at_most(VFloat(10), abs(x)), t = expm1_between(a + a);
  return copysign(t / (t + VFloat(2)), x);
}
#endif

HWY_INLINE VFloat erf(VFloat x) {
  const VFloat a = hn::Min(hn::Abs(x.v), VFloat(4.05).v), xx = a * a;
  const VFloat near = fma(x,
                          polynomial(xx, 0.128379166, -0.37612626, 0.112835854, -0.0268538166, 0.00518833473,
                                     -0.000801024784, 7.85402663e-05),
                          x);
  // log(1 - erf)
  const VFloat tail = polynomial(a, 0.000188490623, -1.12958038, -0.633216202, -0.108422302, 0.0252104606,
                                 -0.00420532795, 0.000441480981, -2.16982899e-05);
  const VFloat far = copysign(VFloat(1) - exp_nonpositive(tail), x);
  return select(abs(x) >= VFloat(1), far, near);
}

// Returns the probability that a normal variable exceeds a >= 0, with relative accuracy however small it is: exp(-a^2 / 2) P(u),
// u = (a - 3) / (a + 3).
HWY_INLINE VFloat normal_tail(VFloat a) {
  const VFloat u = fma(VFloat(1) / (a + VFloat(3)), VFloat(-6), VFloat(1));
  const VFloat p = polynomial(u, 0.121513948, -0.206402615, 0.123225018, -0.0462133139, 0.00613218453,
                              0.00290470198, -0.000984187936, -0.000339912163, 0.00011604395, 5.41548143e-05);
  const VFloat aa = a * a, lost = fma(a, a, -aa);  // a^2 = aa + lost
  return exp_minus_half(aa, lost) * p;
}

// Calls a function of the C library element by element.
template <class F>
HWY_INLINE VFloat each(F f, VFloat a, VFloat b) {
  alignas(64) float x[lanes()], y[lanes()];
  store(a, x);
  store(b, y);
  for (size_t i = 0; i < lanes(); ++i) x[i] = f(x[i], y[i]);
  return load(x);
}
template <class F>
HWY_INLINE VFloat each(F f, VFloat a) {
  return each([f](float x, float) { return f(x); }, a, a);
}
HWY_INLINE VFloat tan(VFloat x) {
  return each([](float v) { return std::tan(v); }, x);
}
HWY_INLINE VFloat asin(VFloat x) {
  return each([](float v) { return std::asin(v); }, x);
}
HWY_INLINE VFloat acos(VFloat x) {
  return each([](float v) { return std::acos(v); }, x);
}
HWY_INLINE VFloat atan(VFloat x) {
  return each([](float v) { return std::atan(v); }, x);
}
HWY_INLINE VFloat sinh(VFloat x) {
  return each([](float v) { return std::sinh(v); }, x);
}
HWY_INLINE VFloat cosh(VFloat x) {
  return each([](float v) { return std::cosh(v); }, x);
}
HWY_INLINE VFloat pow(VFloat a, VFloat b) {
  return each([](float x, float y) { return std::pow(x, y); }, a, b);
}
HWY_INLINE VFloat atan2(VFloat a, VFloat b) {
  return each([](float x, float y) { return std::atan2(x, y); }, a, b);
}
HWY_INLINE VFloat fmod(VFloat a, VFloat b) {
  return each([](float x, float y) { return std::fmod(x, y); }, a, b);
}

// Returns sin(x + quadrant * pi/2). Outside the range in which the reduction is exact, the C library computes the result, element
// by element, so that it does not depend on neighboring elements.
template <class F>
HWY_INLINE VFloat sine(VFloat x, int quadrant, F exact) {
  constexpr double kRange = HWY_NATIVE_FMA ? 1e5 : 0;
  const VFloat n = round(x * VFloat(0.636619772367581343));
  const VFloat r =
      fma(n, VFloat(1.7151245e-15), fma(n, VFloat(4.37113900e-8), fma(n, VFloat(-1.57079637), x)));
  const VFloat rr = r * r;
  const VFloat sin_r = fma(r * rr, polynomial(rr, -0.166666538, 0.0083321128, -0.000195087414), r);
  const VFloat cos_r = fma(rr * rr, polynomial(rr, 0.0416666456, -0.00138872513, 2.44256807e-05),
                           fma(rr, VFloat(-0.5), VFloat(1)));
  const VInt q = hn::Add(to_int(limit(n, -1e6, 1e6)), hn::Set(kInt, quadrant));
  const VMask odd{hn::RebindMask(kFloat, hn::TestBit(q, hn::Set(kInt, 1)))};
  const VMask negative{hn::RebindMask(kFloat, hn::TestBit(q, hn::Set(kInt, 2)))};
  const VFloat value = select(odd, cos_r, sin_r), result = select(negative, -value, value);
  const VMask near = abs(x) <= VFloat(kRange);
  if (HWY_LIKELY(hn::AllTrue(kFloat, near.m))) return result;
  return select(near, result, each(exact, x));
}
HWY_INLINE VFloat sin(VFloat x) {
  const VFloat y = sine(x, 0, [](float v) { return std::sin(v); });
  return select(x == VFloat(0), x, y);
}
HWY_INLINE VFloat cos(VFloat x) {
  return sine(x, 1, [](float v) { return std::cos(v); });
}

#define GENESIS_FORMULA HWY_INLINE
#include "schema/ops/elementwise/formulas.h"
#undef GENESIS_FORMULA

#if HWY_TARGET == HWY_AVX3
// Returns max(x, 0) minus a tail of |x|: by the table for most numbers, else as far(a, piece) returns it.
template <size_t kRows, class F>
HWY_INLINE VFloat relu_less(const float (&tail)[kRows][16], float end, double p, VFloat x, F far) {
  const VFloat a = abs(x), piece = fma(a + VFloat(p), a + VFloat(0.2), VFloat(2 * kRounder));
  const VFloat near = VFloat(hn::Max(hn::Zero(kFloat), x.v)) - in_pieces(tail, a, piece);
  const VMask beyond = a > VFloat(end);
  if (HWY_LIKELY(hn::AllFalse(kFloat, beyond.m))) return near;
  return select(beyond, far(a, piece), near);
}
HWY_INLINE VFloat gelu(VFloat x) {
  return relu_less(kGeluTail, kGeluTailEnd, 1.6, x, [x](VFloat a, VFloat piece) HWY_ATTR {
    const VFloat near = VFloat(hn::Max(hn::Zero(kFloat), x.v)) - in_pieces(kGeluFarTail, a, piece);
    const VMask beyond = a > VFloat(kGeluFarTailEnd);
    if (HWY_LIKELY(hn::AllFalse(kFloat, beyond.m))) return near;
    return select(beyond, gelu<VFloat>(x), near);
  });
}
HWY_INLINE VFloat gelu_tanh(VFloat x) {
  return relu_less(kGeluTanhTail, kGeluTanhTailEnd, 1.8, x,
                   [x](VFloat, VFloat) HWY_ATTR { return gelu_tanh<VFloat>(x); });
}
#endif

}  // namespace genesis::cpu::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
