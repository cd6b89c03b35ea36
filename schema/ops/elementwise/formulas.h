// The formulas of all elementwise ops that are not primitives, each written once. This is text, not an ordinary header: it has no
// include guard and includes nothing, so that each user can include it in its own namespace. The namespace defines
// GENESIS_FORMULA (function attributes) and the following words for its element type T, which may be a number, a vector of
// numbers or a device's number:
//
//   T(number)  + - * /  unary -  == != < <= > >=  select(condition, T, T)
//   abs floor ceil round sqrt exp log log1p expm1 sin cos tan asin acos atan sinh cosh tanh erf normal_tail
//   pow atan2 fmod copysign
//
// The users are backends/cpu/simd/simd_math.h (vectors), backends/cpu/simd/scalar_math.h (f64, integers) and generated GPU code.
// A function has the name of its op; the op's attributes are further parameters (schema/ops/elementwise/formula_call.h).

template <class T>
GENESIS_FORMULA T neg(T x) {
  return -x;
}
template <class T>
GENESIS_FORMULA T square(T x) {
  return x * x;
}
template <class T>
GENESIS_FORMULA T sign(T x) {
  return select(x > T(0), T(1), select(x < T(0), T(-1), T(0)));
}
template <class T>
GENESIS_FORMULA T rsqrt(T x) {
  return T(1) / sqrt(x);
}
template <class T>
GENESIS_FORMULA T reciprocal(T x) {
  return T(1) / x;
}

// The result is 0 if exp overflows, which is correct.
template <class T>
GENESIS_FORMULA T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
template <class T>
GENESIS_FORMULA T relu(T x) {
  return select(x < T(0), T(0), x);
}
template <class T>
GENESIS_FORMULA T leaky_relu(T x, T negative_slope) {
  return select(x > T(0), x, x * negative_slope);
}
template <class T>
GENESIS_FORMULA T elu(T x, T alpha) {
  return select(x > T(0), x, alpha * expm1(x));
}
template <class T>
GENESIS_FORMULA T silu(T x) {
  return x / (T(1) + exp(-x));
}
// x cdf(x) = max(x, 0) - |x| normal_tail(|x|), a form without cancellation; the tail is 0 long before 40.
template <class T>
GENESIS_FORMULA T gelu(T x) {
  const T a = select(abs(x) > T(40), T(40), abs(x));
  return relu(x) - a * normal_tail(a);
}
// (1 + tanh(z)) / 2 = sigmoid(2 z), a form that does not cancel for negative z.
template <class T>
GENESIS_FORMULA T gelu_tanh(T x) {
  return x / (T(1) + exp(x * (x * x * T(-0.07135481627260026) - T(1.5957691216057308))));
}
template <class T>
GENESIS_FORMULA T softplus(T x, T beta, T threshold) {
  const T z = x * beta;
  return select(z > threshold, x, log1p(exp(z)) / beta);
}
template <class T>
GENESIS_FORMULA T hardswish(T x) {
  const T y = x + T(3), low = select(y < T(0), T(0), y);
  return x * select(low > T(6), T(6), low) / T(6);
}
// tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2) and e = exp(x).
template <class T>
GENESIS_FORMULA T mish(T x) {
  const T e = exp(select(x > T(20), T(20), x)), n = e * (e + T(2));
  return select(x > T(20), x, x * (n / (n + T(2))));
}
template <class T>
GENESIS_FORMULA T clamp(T x, T min, T max) {
  const T low = select(x < min, min, x);
  return select(low > max, max, low);
}

template <class T>
GENESIS_FORMULA auto isnan(T x) {
  return x != x;
}
template <class T>
GENESIS_FORMULA auto isinf(T x) {
  return abs(x) == T(1e300 * 1e300);
}
template <class T>
GENESIS_FORMULA auto isfinite(T x) {
  return abs(x) < T(1e300 * 1e300);
}

template <class T>
GENESIS_FORMULA T add(T a, T b) {
  return a + b;
}
template <class T>
GENESIS_FORMULA T sub(T a, T b) {
  return a - b;
}
template <class T>
GENESIS_FORMULA T mul(T a, T b) {
  return a * b;
}
template <class T>
GENESIS_FORMULA T div(T a, T b) {
  return a / b;
}
template <class T>
GENESIS_FORMULA T maximum(T a, T b) {
  return select(a > b, a, select(a != a, a, b));
}
template <class T>
GENESIS_FORMULA T minimum(T a, T b) {
  return select(a < b, a, select(a != a, a, b));
}
// fmod is exact and has the sign of a; the result must have the sign of b.
template <class T>
GENESIS_FORMULA T remainder(T a, T b) {
  const T r = fmod(a, b);
  const T moved = select(b < T(0), select(r > T(0), r + b, r), select(r < T(0), r + b, r));
  return select(b == b, moved, b);
}
// (a - fmod(a, b)) / b is an integer up to rounding; it is one too large if the signs differ and a remainder is left. a / b alone
// could round up to the next integer.
template <class T>
GENESIS_FORMULA T floordiv(T a, T b) {
  const T r = fmod(a, b), toward_zero = (a - r) / b, below = toward_zero - T(1);
  const T quotient =
      select(b < T(0), select(r > T(0), below, toward_zero), select(r < T(0), below, toward_zero));
  const T whole = floor(quotient), nearest = select(quotient - whole > T(0.5), whole + T(1), whole);
  const T finite = select(quotient == T(0), copysign(T(0), a / b), nearest);
  return select(b == T(0), a / b, finite);
}

template <class T>
GENESIS_FORMULA auto eq(T a, T b) {
  return a == b;
}
template <class T>
GENESIS_FORMULA auto ne(T a, T b) {
  return a != b;
}
template <class T>
GENESIS_FORMULA auto lt(T a, T b) {
  return a < b;
}
template <class T>
GENESIS_FORMULA auto le(T a, T b) {
  return a <= b;
}
template <class T>
GENESIS_FORMULA auto gt(T a, T b) {
  return a > b;
}
template <class T>
GENESIS_FORMULA auto ge(T a, T b) {
  return a >= b;
}
