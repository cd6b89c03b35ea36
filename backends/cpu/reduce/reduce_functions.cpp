#include "backends/cpu/reduce/reduce_functions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/common/wrapping.h"

namespace genesis::cpu {
namespace {

template <class A>
struct SumOp {
  static constexpr A kIdentity = A(0);
  static A combine(A a, A b) { return wrapping_add(a, b); }
};
template <class A>
struct ProdOp {
  static constexpr A kIdentity = A(1);
  static A combine(A a, A b) {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
};
template <class A>
struct MaxOp {
  static constexpr A kIdentity =
      std::is_floating_point_v<A> ? -std::numeric_limits<A>::infinity() : std::numeric_limits<A>::lowest();
  static A combine(A a, A b) { return a > b || a != a ? a : b; }
};
template <class A>
struct MinOp {
  static constexpr A kIdentity =
      std::is_floating_point_v<A> ? std::numeric_limits<A>::infinity() : std::numeric_limits<A>::max();
  static A combine(A a, A b) { return a < b || a != a ? a : b; }
};
struct AnyOp {
  static constexpr uint8_t kIdentity = 0;
  static uint8_t combine(uint8_t a, uint8_t b) { return a | b; }
};
struct AllOp {
  static constexpr uint8_t kIdentity = 1;
  static uint8_t combine(uint8_t a, uint8_t b) { return a & b; }
};

constexpr int64_t kLanes = 8;

// Converts an element to what `Op` combines: a truth value for any and all, a number otherwise.
template <class Op, class A, class T>
A lift(T x) {
  if constexpr (std::is_same_v<Op, AnyOp> || std::is_same_v<Op, AllOp>)
    return x != T(0);
  else
    return static_cast<A>(x);
}

template <class Op, class A, class T>
void span(const void* data, int64_t n, void* acc) {
  const T* x = static_cast<const T*>(data);
  A lanes[kLanes];
  std::fill_n(lanes, kLanes, Op::kIdentity);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] = Op::combine(lift<Op, A>(x[i + k]), lanes[k]);
  for (; i < n; ++i) lanes[i % kLanes] = Op::combine(lift<Op, A>(x[i]), lanes[i % kLanes]);
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k) lanes[k] = Op::combine(lanes[k], lanes[k + half]);
  *static_cast<A*>(acc) = lanes[0];
}

template <class Op, class A, class T>
void columns(const void* data, int64_t rows, int64_t width, int64_t stride, void* accumulator) {
  const T* x = static_cast<const T*>(data);
  A* acc = static_cast<A*>(accumulator);
  std::fill_n(acc, width, Op::kIdentity);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t j = 0; j < width; ++j) acc[j] = Op::combine(acc[j], lift<Op, A>(x[row * stride + j]));
}

template <class Op, class A>
void merge(void* accumulator, const void* other, int64_t n) {
  A* acc = static_cast<A*>(accumulator);
  const A* more = static_cast<const A*>(other);
  for (int64_t j = 0; j < n; ++j) acc[j] = Op::combine(acc[j], more[j]);
}

template <class A>
void finish(const void* accumulator, void* y, int64_t n, double divisor) {
  const A* acc = static_cast<const A*>(accumulator);
  for (int64_t j = 0; j < n; ++j) {
    if constexpr (std::is_floating_point_v<A>)
      static_cast<A*>(y)[j] = acc[j] / divisor;
    else
      static_cast<A*>(y)[j] = acc[j];
  }
}

template <class Op, class A, class T>
ReduceFunctions functions() {
  return {sizeof(A), span<Op, A, T>, columns<Op, A, T>, merge<Op, A>, finish<A>};
}

template <class T>
ReduceFunctions functions_for(Reduce op) {
  using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  switch (op) {
    case Reduce::kSum:
      return functions<SumOp<Wide>, Wide, T>();
    case Reduce::kProd:
      return functions<ProdOp<Wide>, Wide, T>();
    case Reduce::kMax:
      return functions<MaxOp<T>, T, T>();
    case Reduce::kMin:
      return functions<MinOp<T>, T, T>();
    case Reduce::kAny:
      return functions<AnyOp, uint8_t, T>();
    default:
      return functions<AllOp, uint8_t, T>();
  }
}

template <class T>
ReduceFunctions truth_functions(Reduce op) {
  return op == Reduce::kAny ? functions<AnyOp, uint8_t, T>() : functions<AllOp, uint8_t, T>();
}

PairState moments(const void* data, int64_t n) {
  const auto* x = static_cast<const double*>(data);
  double sum = 0, squares = 0;
  span<SumOp<double>, double, double>(x, n, &sum);
  const double mean = sum / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, squares};
}

PairState log_sum_exp(const void* data, int64_t n) {
  const auto* x = static_cast<const double*>(data);
  double greatest = 0, sum = 0;
  span<MaxOp<double>, double, double>(x, n, &greatest);
  if (!std::isfinite(greatest)) return {greatest, greatest < 0 ? 0.0 : 1.0};
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - greatest);
  return {greatest, sum};
}

// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
PairState merge_moments(PairState left, int64_t left_n, PairState right, int64_t right_n) {
  const auto n = static_cast<double>(left_n), m = static_cast<double>(right_n);
  const double delta = right.a - left.a;
  return {left.a + delta * (m / (n + m)), left.b + right.b + delta * delta * (n * m / (n + m))};
}

PairState merge_log_sum_exp(PairState left, int64_t, PairState right, int64_t) {
  const double greatest = MaxOp<double>::combine(left.a, right.a);
  if (!std::isfinite(greatest)) return {greatest, greatest < 0 ? 0.0 : 1.0};
  return {greatest, left.b * std::exp(left.a - greatest) + right.b * std::exp(right.a - greatest)};
}

constexpr bool is_vectorized(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

}  // namespace

ReduceFunctions reduce_functions_plain(Reduce op, DType dtype) {
  if (dtype == DType::boolean) dtype = DType::u8;  // its bytes are 0 and 1
  return dispatch(dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (is_vectorized(dtype_of<T>()))
      return truth_functions<T>(op);
    else
      return functions_for<T>(op);
  });
}

ReduceFunctions reduce_functions(Reduce op, DType dtype) {
  const bool truth = op == Reduce::kAny || op == Reduce::kAll;
  return is_vectorized(dtype) && !truth ? reduce_functions_vector(op, dtype)
                                        : reduce_functions_plain(op, dtype);
}

PairFunctions pair_functions(PairReduce op, DType dtype) {
  PairFunctions functions{op == PairReduce::kMoments ? moments : log_sum_exp, nullptr};
  if (is_vectorized(dtype)) functions = pair_functions_vector(op, dtype);
  functions.merge = op == PairReduce::kMoments ? merge_moments : merge_log_sum_exp;
  return functions;
}

}  // namespace genesis::cpu
