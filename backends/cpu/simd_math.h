// Transcendental functions of f32 vectors, within a few units in the last place over the whole range, and the
// formulas of schema/ops/formulas.h for vectors. Included once per Highway target, like simd.h. The
// polynomials are minimax fits made for this file; the reductions are the classical ones (Cody and Waite).
#if defined(GENESIS_BACKENDS_CPU_SIMD_MATH_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GENESIS_BACKENDS_CPU_SIMD_MATH_H_
#undef GENESIS_BACKENDS_CPU_SIMD_MATH_H_
#else
#define GENESIS_BACKENDS_CPU_SIMD_MATH_H_
#endif

#include <cmath>

#include "backends/cpu/simd.h"

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
// For integers n. scale: x * 2^n for n in [-252, 254], rounded once. scale_down: for x near 1 and n <= 0,
// where results below 2^-126 may become 0; `shifted` is n + kRounder. power: 2^n for n in [-126, 127].
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

// x = n ln2 + r with |r| <= ln2 / 2.
struct ExpParts {
  VFloat r, n;
};
HWY_INLINE ExpParts split_exp(VFloat x) {
  const VFloat n = round(x * VFloat(1.44269504088896341));
  const VFloat high = fma(n, VFloat(-0.693359375), x);  // few bits: the product is exact
  return {fma(n, VFloat(2.12194440e-4), high), n};
}
// exp(r) - 1 on the reduced range.
HWY_INLINE VFloat expm1_reduced(VFloat r) {
  return fma(r * r, polynomial(r, 0.49999994, 0.166665152, 0.041668456, 0.00836941879, 0.00138131424), r);
}
HWY_INLINE VFloat exp_reduced(VFloat r) {
  return polynomial(r, 1.0, 1.0, 0.49999994, 0.166665152, 0.041668456, 0.00836941879, 0.00138131424);
}
HWY_INLINE VFloat limit(VFloat x, double low, double high) {  // NaN passes
  const VFloat up = select(x < VFloat(low), VFloat(low), x);
  return select(up > VFloat(high), VFloat(high), up);
}

// Both take NaN for the second operand's, so that it passes.
HWY_INLINE VFloat exp(VFloat x) {
  const auto [r, n] = split_exp(hn::Min(VFloat(90).v, hn::Max(VFloat(-105).v, x.v)));
  return scale(exp_reduced(r), n);
}

// exp for x <= 0; results below 2^-126 may become 0. NaN gives anything.
HWY_INLINE VFloat exp_nonpositive(VFloat x) {
  x = hn::Max(VFloat(-200).v, x.v);
  const VFloat shifted = fma(x, VFloat(1.44269504088896341), VFloat(kRounder)),
               n = shifted - VFloat(kRounder);
  const VFloat r = fma(n, VFloat(2.12194440e-4), fma(n, VFloat(-0.693359375), x));
  return scale_down(exp_reduced(r), n, shifted);
}

// exp(-(x + correction) / 2) for x in [0, 1e6] and a small correction, with as few products as can be: the
// half and the sign are in the constants.
HWY_INLINE VFloat exp_minus_half(VFloat x, VFloat correction) {
  const VFloat shifted = fma(x, VFloat(-0.72134752044448170), VFloat(kRounder)),
               n = shifted - VFloat(kRounder);
  const VFloat r = fma(n, VFloat(-4.24388880e-4), fma(n, VFloat(1.38671875), x)) + correction;
  const VFloat p =
      polynomial(r, 1, -0.5, 0.124999985, -0.020833144, 0.0026042785, -0.000261544337, 2.1583035e-05);
  return scale_down(p, n, shifted);
}

// expm1 for x in [-30, 89]; NaN gives anything. Half the power, since 2^128 is out of range.
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

// log(u) with u = 1 + x, and what rounding u lost.
HWY_INLINE VFloat log1p(VFloat x) {
  const VFloat u = x + VFloat(1), lost = (x - (u - VFloat(1))) / u;
  const VMask plain = u > VFloat(0), huge = x > VFloat(1e30);
  const VFloat near = select(huge, log(u), log(u) + lost);
  return select(x == VFloat(0), x, select(plain, near, log(u)));
}

// expm1(2|x|) / (expm1(2|x|) + 2)
HWY_INLINE VFloat tanh(VFloat x) {
  const VFloat a = hn::Min(VFloat(10).v, hn::Abs(x.v)), t = expm1_between(a + a);
  return copysign(t / (t + VFloat(2)), x);
}

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

// The chance that a normal variable exceeds a >= 0, with relative accuracy however small it is:
// exp(-a^2 / 2) P(u), u = (a - 3) / (a + 3).
HWY_INLINE VFloat normal_tail_anywhere(VFloat a) {
  const VFloat u = fma(VFloat(1) / (a + VFloat(3)), VFloat(-6), VFloat(1));
  const VFloat p = polynomial(u, 0.121513948, -0.206402615, 0.123225018, -0.0462133139, 0.00613218453,
                              0.00290470198, -0.000984187936, -0.000339912163, 0.00011604395, 5.41548143e-05);
  const VFloat aa = a * a, lost = fma(a, a, -aa);  // a^2 = aa + lost
  return exp_minus_half(aa, lost) * p;
}
#if HWY_TARGET == HWY_AVX3
// Up to 6.25, where most numbers are, in half the time: polynomials in the distance to the nearest multiple
// of 0.2f. A table of 32 numbers stands in two registers.
HWY_INLINE VFloat normal_tail(VFloat a) {
  alignas(64) static constexpr float kTables[7][32] = {
      {0.5f,
       0.420740277f,
       0.344578266f,
       0.2742531f,
       0.211855397f,
       0.158655256f,
       0.115069665f,
       0.0807566568f,
       0.0547992885f,
       0.0359303169f,
       0.0227501299f,
       0.0139034465f,
       0.00819753483f,
       0.00466118753f,
       0.00255513005f,
       0.00134989782f,
       0.000687137828f,
       0.000336929195f,
       0.00015910856f,
       7.23480262e-05f,
       3.16712321e-05f,
       1.33457452e-05f,
       5.41254212e-06f,
       2.11245401e-06f,
       7.93327843e-07f,
       2.86651471e-07f,
       9.96442182e-08f,
       3.33204326e-08f,
       1.0717585e-08f,
       3.31574435e-09f,
       9.86587145e-10f,
       2.82315643e-10f},
      {-0.398942292f,    -0.39104268f,     -0.368270129f,    -0.333224595f,    -0.289691538f,
       -0.241970718f,    -0.194186047f,    -0.149727464f,    -0.110920832f,    -0.0789501518f,
       -0.0539909638f,   -0.035474591f,    -0.0223945286f,   -0.0135829682f,   -0.00791545026f,
       -0.00443184795f,  -0.00238408777f,  -0.00123221893f,  -0.000611901807f, -0.000291946868f,
       -0.000133830195f, -5.89430529e-05f, -2.49424647e-05f, -1.01408496e-05f, -3.96129826e-06f,
       -1.48671916e-06f, -5.36103414e-07f, -1.85736155e-07f, -6.18261993e-08f, -1.97731964e-08f,
       -6.07588335e-09f, -1.79378434e-09f},
      {2.2567006e-09f,  0.0391042717f,   0.0736540258f,   0.0999673828f,   0.115876622f,    0.120985359f,
       0.116511635f,    0.104809225f,    0.0887366682f,   0.0710551366f,   0.0539909638f,   0.0390220508f,
       0.026873434f,    0.0176578593f,   0.0110816313f,   0.00664777169f,  0.00381454057f,  0.00209477218f,
       0.00110142329f,  0.000554699043f, 0.000267660391f, 0.00012378041f,  5.48734206e-05f, 2.33239534e-05f,
       9.50711456e-06f, 3.71679766e-06f, 1.39386873e-06f, 5.01487534e-07f, 1.73113307e-07f, 5.73422483e-08f,
       1.82276416e-08f, 5.56072788e-09f},
      {0.0664902478f,    0.0625667423f,    0.0515577681f,   0.0355439521f,    0.0173815321f,
       6.58871855e-08f,  -0.0142402388f,   -0.0239563361f,  -0.0288393814f,   -0.0294747148f,
       -0.0269954931f,   -0.0227037594f,   -0.0177663509f,  -0.01303967f,     -0.0090236282f,
       -0.00590913789f,  -0.00367149757f,  -0.00216870452f, -0.00121972198f,  -0.000653958356f,
       -0.000334573269f, -0.000163467106f, -7.632286e-05f,  -3.40726001e-05f, -1.45508029e-05f,
       -5.94668563e-06f, -2.32659499e-06f, -8.7167831e-07f, -3.12821612e-07f, -1.0755835e-07f,
       -3.54395766e-08f, -1.11920668e-08f},
      {3.8722128e-06f,  -0.00964570325f, -0.0174314249f,  -0.0219927933f,  -0.0227890462f,  -0.0201642159f,
       -0.0151465144f,  -0.00908347778f, -0.00325369369f, 0.00142108835f,  0.00449923752f,  0.00598337734f,
       0.00618089084f,  0.00553279929f,  0.00446959585f,  0.0033238898f,   0.0023014422f,   0.00149427238f,
       0.000914181815f, 0.000528812991f, 0.000289965101f, 0.000151011729f, 7.48104576e-05f, 3.52966963e-05f,
       1.58767416e-05f, 6.81404799e-06f, 2.79234018e-06f, 1.09322116e-06f, 4.09114364e-07f, 1.46409434e-07f,
       5.0124175e-08f,  1.64219607e-08f},
      {-0.0100304037f,   -0.0089812614f,   -0.00632870616f,  -0.00269164378f,  0.00103107747f,
       0.00401942199f,   0.00575660728f,   0.00612482708f,   0.00535989879f,   0.00390759204f,
       0.00225167745f,   0.000777201378f,  -0.000297034741f, -0.000916989346f, -0.00114661769f,
       -0.0011064834f,   -0.000921753875f, -0.000690991583f, -0.000475730136f, -0.000304328423f,
       -0.000182232427f, -0.000102657425f, -5.4600685e-05f,  -2.74924168e-05f, -1.31319885e-05f,
       -5.96015798e-06f, -2.57373949e-06f, -1.05856748e-06f, -4.15058054e-07f, -1.55261546e-07f,
       -5.54451596e-08f, -1.89125107e-08f},
      {0.000414127833f, 0.0015826507f,   0.00274113775f,   0.00319556496f,   0.0028953685f,
       0.00201432267f,  0.000865860784f, -0.000218286208f, -0.000994095579f, -0.00135935866f,
       -0.00134775951f, -0.00108033547f, -0.000703501806f, -0.000339262624f, -6.04166453e-05f,
       0.000110034947f, 0.000184456439f, 0.000191938438f,  0.000163169592f,  0.000121921323f,
       8.25970274e-05f, 5.15712818e-05f, 2.99700114e-05f,  1.63157292e-05f,  8.35844003e-06f,
       4.0427426e-06f,  1.85074396e-06f, 8.03498494e-07f,  3.31337901e-07f,  1.29944453e-07f,
       4.85180678e-08f, 1.72620958e-08f},
  };
  const VFloat shifted = fma(a, VFloat(5), VFloat(kRounder));
  const VFloat t = fma(shifted - VFloat(kRounder), VFloat(-0.2f), a);
  const auto coefficient = [&](size_t k) HWY_ATTR {
    const VFloat low = load(kTables[k]), high = load(kTables[k] + 16);
    const auto which = hn::BitCast(kInt, shifted.v);
    return VFloat(hn::Vec<FloatTag>{_mm512_permutex2var_ps(low.v.raw, which.raw, high.v.raw)});
  };
  VFloat near = coefficient(6);
  for (size_t k = 6; k-- > 0;) near = fma(near, t, coefficient(k));
  const VMask far = a > VFloat(6.25);
  if (HWY_LIKELY(hn::AllFalse(kFloat, far.m))) return near;
  return select(far, normal_tail_anywhere(a), near);
}
#else
HWY_INLINE VFloat normal_tail(VFloat a) { return normal_tail_anywhere(a); }
#endif

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

// sin(x + quadrant * pi/2). Beyond the range in which the reduction is exact, the C library takes over,
// element by element, so that the result does not depend on the neighbours.
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
#include "schema/ops/formulas.h"
#undef GENESIS_FORMULA

}  // namespace genesis::cpu::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
