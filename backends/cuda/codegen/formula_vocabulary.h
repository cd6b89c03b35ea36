// The device vocabulary of schema/ops/elementwise/formulas.h, and what all generated kernels share: element types and
// arithmetic types. NVRTC gets this text in front of every generated kernel (fused_source.cpp, reduce_source.cpp,
// scan_source.cpp), so it includes nothing and needs nothing but the compiler.
//
// An element is computed in one of four lane types, as on the CPU: float (f16 and bf16 too), double, Integer (every
// integer type) and bool. `Rough` is a float whose result will be rounded to f16 or bf16: it divides and
// exponentiates by the chip's approximations, which are exact to at least 14 bits.

namespace genesis_device {

struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};

struct Rough {
  float v;
  Rough() = default;
  explicit Rough(float x) : v(x) {}
  explicit Rough(double x) : v(static_cast<float>(x)) {}
  explicit Rough(int x) : v(static_cast<float>(x)) {}
};

// --- float

inline float select(bool c, float a, float b) { return c ? a : b; }
inline float abs(float x) { return fabsf(x); }
inline float floor(float x) { return floorf(x); }
inline float ceil(float x) { return ceilf(x); }
inline float round(float x) { return rintf(x); }
inline float sqrt(float x) { return sqrtf(x); }
inline float exp(float x) { return expf(x); }
inline float log(float x) { return logf(x); }
inline float log1p(float x) { return log1pf(x); }
inline float expm1(float x) { return expm1f(x); }
inline float sin(float x) { return sinf(x); }
inline float cos(float x) { return cosf(x); }
inline float tan(float x) { return tanf(x); }
inline float asin(float x) { return asinf(x); }
inline float acos(float x) { return acosf(x); }
inline float atan(float x) { return atanf(x); }
inline float sinh(float x) { return sinhf(x); }
inline float cosh(float x) { return coshf(x); }
inline float tanh(float x) { return tanhf(x); }
inline float erf(float x) { return erff(x); }
inline float pow(float a, float b) { return powf(a, b); }
inline float atan2(float a, float b) { return atan2f(a, b); }
inline float fmod(float a, float b) { return fmodf(a, b); }
inline float copysign(float a, float b) { return copysignf(a, b); }

#ifdef __CUDA_ARCH__
// The chip's approximations of 2^x and 1 / x; results below 2^-126 become 0.
inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
inline float inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else  // for the tests, which compile this text for the host
inline float power_of_two(float x) { return exp2f(x); }
inline float inverse(float x) { return 1.0f / x; }
#endif

// Computes exp(x) for x <= 0. x log2(e) is taken in two terms: the rounding error of the product is multiplied back
// in as a factor near 1.
inline float exp_nonpositive(float x) {
  const float t = x * 1.44269504f;
  const float lost = fmaf(x, 1.92596303e-8f, fmaf(x, 1.44269504f, -t));
  const float y = power_of_two(t);
  return x > -200.0f ? fmaf(y, lost * 0.69314718f, y) : x == x ? 0.0f : x;
}

// c0 + x (c1 + x (c2 + ...))
inline float polynomial(float, float c0) { return c0; }
template <class... C>
inline float polynomial(float x, float c0, C... rest) {
  return fmaf(polynomial(x, rest...), x, c0);
}

// Returns the probability that a standard normal variable exceeds a in [0, 40]: exp(-a^2 / 2) P(u) with
// u = (a - 3) / (a + 3) and the polynomial of backends/cpu/simd/simd_math.h. The exponent is taken in two terms as above:
// a^2 = aa + lost.
inline float normal_tail(float a) {
  const float u = fmaf(inverse(a + 3.0f), -6.0f, 1.0f);
  const float p =
      polynomial(u, 0.121513948f, -0.206402615f, 0.123225018f, -0.0462133139f, 0.00613218453f, 0.00290470198f,
                 -0.000984187936f, -0.000339912163f, 0.00011604395f, 5.41548143e-05f);
  const float aa = a * a, t = aa * -0.72134752f;
  const float lost =
      fmaf(fmaf(a, a, -aa), -0.72134752f, fmaf(aa, -9.62981516e-9f, fmaf(aa, -0.72134752f, -t)));
  const float y = power_of_two(t);
  return fmaf(y, lost * 0.69314718f, y) * p;
}

// --- double

inline double select(bool c, double a, double b) { return c ? a : b; }
inline double abs(double x) { return ::fabs(x); }
inline double floor(double x) { return ::floor(x); }
inline double ceil(double x) { return ::ceil(x); }
inline double round(double x) { return ::rint(x); }
inline double sqrt(double x) { return ::sqrt(x); }
inline double exp(double x) { return ::exp(x); }
inline double log(double x) { return ::log(x); }
inline double log1p(double x) { return ::log1p(x); }
inline double expm1(double x) { return ::expm1(x); }
inline double sin(double x) { return ::sin(x); }
inline double cos(double x) { return ::cos(x); }
inline double tan(double x) { return ::tan(x); }
inline double asin(double x) { return ::asin(x); }
inline double acos(double x) { return ::acos(x); }
inline double atan(double x) { return ::atan(x); }
inline double sinh(double x) { return ::sinh(x); }
inline double cosh(double x) { return ::cosh(x); }
inline double tanh(double x) { return ::tanh(x); }
inline double erf(double x) { return ::erf(x); }
inline double pow(double a, double b) { return ::pow(a, b); }
inline double atan2(double a, double b) { return ::atan2(a, b); }
inline double fmod(double a, double b) { return ::fmod(a, b); }
inline double copysign(double a, double b) { return ::copysign(a, b); }
inline double exp_nonpositive(double x) { return ::exp(x); }
inline double normal_tail(double x) { return 0.5 * ::erfc(x * 0.70710678118654752440); }

// --- Rough: cheaper functions where there are any; for the rest, float's functions

inline Rough operator+(Rough a, Rough b) { return Rough(a.v + b.v); }
inline Rough operator-(Rough a, Rough b) { return Rough(a.v - b.v); }
inline Rough operator*(Rough a, Rough b) { return Rough(a.v * b.v); }
inline Rough operator-(Rough a) { return Rough(-a.v); }
inline bool operator==(Rough a, Rough b) { return a.v == b.v; }
inline bool operator!=(Rough a, Rough b) { return a.v != b.v; }
inline bool operator<(Rough a, Rough b) { return a.v < b.v; }
inline bool operator<=(Rough a, Rough b) { return a.v <= b.v; }
inline bool operator>(Rough a, Rough b) { return a.v > b.v; }
inline bool operator>=(Rough a, Rough b) { return a.v >= b.v; }
inline Rough select(bool c, Rough a, Rough b) { return c ? a : b; }
#ifdef __CUDA_ARCH__
inline Rough operator/(Rough a, Rough b) {  // to 2 units in the last place, over the whole range
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a.v), "f"(b.v));
  return Rough(y);
}
#else
inline Rough operator/(Rough a, Rough b) { return Rough(a.v / b.v); }
#endif
inline Rough exp_nonpositive(Rough x) { return Rough(power_of_two(x.v * 1.44269504f)); }
// The same as for float, with a polynomial whose error is below 4e-5.
inline Rough normal_tail(Rough x) {
  const float p = polynomial(fmaf(inverse(x.v + 3.0f), -6.0f, 1.0f), 0.12150908f, -0.206410105f, 0.123391116f,
                             -0.0462293066f, 0.00536564394f, 0.00288357373f);
  return Rough(power_of_two(x.v * x.v * -0.72134752f) * p);
}
inline Rough abs(Rough x) { return Rough(abs(x.v)); }
inline Rough floor(Rough x) { return Rough(floor(x.v)); }
inline Rough ceil(Rough x) { return Rough(ceil(x.v)); }
inline Rough round(Rough x) { return Rough(round(x.v)); }
inline Rough sqrt(Rough x) { return Rough(sqrt(x.v)); }
inline Rough exp(Rough x) { return exp_nonpositive(x); }
inline Rough log(Rough x) { return Rough(log(x.v)); }
inline Rough log1p(Rough x) { return Rough(log1p(x.v)); }
inline Rough expm1(Rough x) { return Rough(expm1(x.v)); }
inline Rough sin(Rough x) { return Rough(sin(x.v)); }
inline Rough cos(Rough x) { return Rough(cos(x.v)); }
inline Rough tan(Rough x) { return Rough(tan(x.v)); }
inline Rough asin(Rough x) { return Rough(asin(x.v)); }
inline Rough acos(Rough x) { return Rough(acos(x.v)); }
inline Rough atan(Rough x) { return Rough(atan(x.v)); }
inline Rough sinh(Rough x) { return Rough(sinh(x.v)); }
inline Rough cosh(Rough x) { return Rough(cosh(x.v)); }
inline Rough tanh(Rough x) { return Rough(tanh(x.v)); }
inline Rough erf(Rough x) { return Rough(erf(x.v)); }
inline Rough pow(Rough a, Rough b) { return Rough(pow(a.v, b.v)); }
inline Rough atan2(Rough a, Rough b) { return Rough(atan2(a.v, b.v)); }
inline Rough fmod(Rough a, Rough b) { return Rough(fmod(a.v, b.v)); }
inline Rough copysign(Rough a, Rough b) { return Rough(copysign(a.v, b.v)); }

// --- truth values, and functions for every lane type

template <class T>
inline bool logical_not(T x) {
  return !x;
}
inline bool logical_and(bool a, bool b) { return a && b; }
inline bool logical_or(bool a, bool b) { return a || b; }
template <class T>
inline T where(bool c, T a, T b) {
  return c ? a : b;
}

}  // namespace genesis_device
