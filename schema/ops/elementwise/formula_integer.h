// Integers as elementwise formulas compute them: every type in 64 bits, truncated to its width afterwards, which gives the same
// bits. Sums and products wrap around as in PyTorch. A quotient by 0 is 0 here and reported by the caller. This file is text like
// formulas.h: each user includes it in its own namespace, which has the types int64 and uint64; on the CPU this is
// backends/cpu/simd/scalar_math.h, in generated GPU code backends/cuda/codegen/formula_vocabulary.h.

struct Integer {
  int64 v;
  Integer() = default;
  explicit Integer(int64 x) : v(x) {}
  explicit Integer(int x) : v(x) {}
  explicit Integer(double x) : v(saturate(x)) {}

  static int64 saturate(double x) {  // a NaN gives 0
    if (x >= 9223372036854775808.0) return 0x7fffffffffffffffll;
    if (x < -9223372036854775808.0) return -0x7fffffffffffffffll - 1;
    return x == x ? static_cast<int64>(x) : 0;
  }
};

inline Integer wrapped(uint64 x) { return Integer(static_cast<int64>(x)); }
inline uint64 bits_of(Integer x) { return static_cast<uint64>(x.v); }
inline Integer operator+(Integer a, Integer b) { return wrapped(bits_of(a) + bits_of(b)); }
inline Integer operator-(Integer a, Integer b) { return wrapped(bits_of(a) - bits_of(b)); }
inline Integer operator*(Integer a, Integer b) { return wrapped(bits_of(a) * bits_of(b)); }
inline Integer operator-(Integer a) { return wrapped(0 - bits_of(a)); }
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
inline Integer floordiv(Integer a, Integer b) {
  if (b.v == 0) return b;
  if (b.v == -1) return -a;  // the only quotient that can overflow
  const int64 q = a.v / b.v;
  return Integer(q - int64(a.v % b.v != 0 && (a.v < 0) != (b.v < 0)));
}
inline Integer remainder(Integer a, Integer b) { return b.v == 0 ? b : a - floordiv(a, b) * b; }
inline Integer pow(Integer a, Integer b) {
  if (b.v < 0) return a.v == 1 ? a : a.v == -1 ? Integer(b.v % 2 ? -1 : 1) : Integer(0);
  Integer result(1);
  for (uint64 e = bits_of(b); e; e >>= 1, a = a * a)
    if (e & 1) result = result * a;
  return result;
}
