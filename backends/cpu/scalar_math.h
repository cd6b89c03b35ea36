// The formulas of schema/ops/formulas.h for single numbers: double, and integers that wrap around as
// PyTorch's do. Used by the f64 and i64 tile functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace genesis::cpu::scalar {

// Every integer type is computed as i64 and cut to its width afterwards, which gives the same bits.
struct Integer {
  int64_t v = 0;
  Integer() = default;
  explicit Integer(int64_t x) : v(x) {}
  explicit Integer(int x) : v(x) {}
  explicit Integer(double x) : v(saturate(x)) {}

  static int64_t saturate(double x) {  // NaN gives 0
    if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
    if (x < -0x1p63) return std::numeric_limits<int64_t>::min();
    return x == x ? static_cast<int64_t>(x) : 0;
  }
};

inline Integer wrapped(uint64_t x) { return Integer(static_cast<int64_t>(x)); }
inline uint64_t bits(Integer x) { return static_cast<uint64_t>(x.v); }
inline Integer operator+(Integer a, Integer b) { return wrapped(bits(a) + bits(b)); }
inline Integer operator-(Integer a, Integer b) { return wrapped(bits(a) - bits(b)); }
inline Integer operator*(Integer a, Integer b) { return wrapped(bits(a) * bits(b)); }
inline Integer operator-(Integer a) { return wrapped(0 - bits(a)); }
inline bool operator==(Integer a, Integer b) { return a.v == b.v; }
inline bool operator!=(Integer a, Integer b) { return a.v != b.v; }
inline bool operator<(Integer a, Integer b) { return a.v < b.v; }
inline bool operator<=(Integer a, Integer b) { return a.v <= b.v; }
inline bool operator>(Integer a, Integer b) { return a.v > b.v; }
inline bool operator>=(Integer a, Integer b) { return a.v >= b.v; }
inline Integer select(bool c, Integer a, Integer b) { return c ? a : b; }
inline Integer abs(Integer a) { return a.v < 0 ? -a : a; }
inline Integer floor(Integer a) { return a; }
inline Integer ceil(Integer a) { return a; }
inline Integer round(Integer a) { return a; }

// Division by 0 gives 0 here and is reported by the caller.
inline Integer floordiv(Integer a, Integer b) {
  if (b.v == 0) return b;
  if (b.v == -1) return -a;  // the one quotient that overflows
  const int64_t q = a.v / b.v;
  return Integer(q - int64_t{a.v % b.v != 0 && (a.v < 0) != (b.v < 0)});
}
inline Integer remainder(Integer a, Integer b) { return b.v == 0 ? b : a - floordiv(a, b) * b; }
inline Integer pow(Integer a, Integer b) {
  if (b.v < 0) return a.v == 1 ? a : a.v == -1 ? Integer(b.v % 2 ? -1 : 1) : Integer(0);
  Integer result(1);
  for (uint64_t e = bits(b); e; e >>= 1, a = a * a)
    if (e & 1) result = result * a;
  return result;
}

inline double select(bool c, double a, double b) { return c ? a : b; }
inline double normal_tail(double x) { return 0.5 * std::erfc(x * 0.70710678118654752440); }
inline double round(double x) { return std::nearbyint(x); }
using std::abs, std::floor, std::ceil, std::sqrt, std::exp, std::log, std::log1p, std::expm1, std::sin,
    std::cos, std::tan, std::asin, std::acos, std::atan, std::sinh, std::cosh, std::tanh, std::erf, std::pow,
    std::atan2, std::fmod, std::copysign;

#define GENESIS_FORMULA inline
#include "schema/ops/formulas.h"
#undef GENESIS_FORMULA

}  // namespace genesis::cpu::scalar
