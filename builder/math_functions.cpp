#include "builder/math_functions.h"

#include "schema/ops/elementwise/elementwise.h"

namespace genesis {

// log(a + sqrt(a^2 + 1)) for a = |x|, without losing small x
Value asinh(Value x) {
  const Value a = abs(x), y = log1p(a + square(a) / (sqrt(square(a) + 1.0) + 1.0));
  return where(x < 0.0, -y, y);
}
Value acosh(Value x) { return log(x + sqrt(square(x) - 1.0)); }
Value atanh(Value x) { return (log1p(x) - log1p(-x)) * 0.5; }
Value log2(Value x) { return log(x) * 1.4426950408889634; }
Value log10(Value x) { return log(x) * 0.4342944819032518; }
Value exp2(Value x) { return exp(x * 0.6931471805599453); }
Value trunc(Value x) { return is_float(x.dtype()) ? where(x < 0.0, ceil(x), floor(x)) : x; }
Value fmod(Value a, Value b) {
  const Value rest = remainder(abs(a), abs(b));
  return where(a < scalar_like(a, 0), -rest, rest);
}
Value softsign(Value x) { return x / (abs(x) + 1.0); }
Value tanhshrink(Value x) { return x - tanh(x); }
Value lerp(Value a, Value b, Value weight) { return a + (b - a) * weight; }

}  // namespace genesis
