// Tests elementwise ops against the C library in double, over ranks, broadcasts, dtypes and special numbers.
#include "schema/ops/elementwise/elementwise.h"

#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "passes/training/autodiff.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Unary = double (*)(double);
using Binary = double (*)(double, double);

// Applies f to each element of one input.
Ref mapped(const Ref& x, Unary f) {
  Ref y = x;
  for (double& v : y.data) v = f(v);
  return y;
}

// Returns element `flat` of the broadcast shape, read from x.
double broadcast_at(const Ref& x, int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index = unravel(flat, shape);
  index.erase(index.begin(), index.begin() + static_cast<ptrdiff_t>(shape.size() - x.shape.size()));
  for (size_t i = 0; i < index.size(); ++i)
    if (x.shape[i] == 1) index[i] = 0;
  return x[ravel(index, x.shape)];
}

std::vector<int64_t> broadcast_sizes(const Ref& a, const Ref& b) {
  return broadcast(Shape::of(a.shape), Shape::of(b.shape)).sizes();
}

Ref mapped(const Ref& a, const Ref& b, Binary f) {
  Ref y = ref_zeros(broadcast_sizes(a, b));
  for (int64_t i = 0; i < y.numel(); ++i) y[i] = f(broadcast_at(a, i, y.shape), broadcast_at(b, i, y.shape));
  return y;
}

// --- one operand

struct UnaryRow {
  const char* name;
  Value (*op)(Value);
  Unary reference;
  double low = -3, high = 3;
  bool gradient = true;
};

Value leaky(Value x) { return leaky_relu(x, 0.2); }
Value elu2(Value x) { return elu(x, 2.0); }
Value gelu_erf(Value x) { return gelu(x); }
Value gelu_tanh(Value x) { return gelu(x, GeluKind::kTanh); }
Value softplus1(Value x) { return softplus(x); }
Value softplus2(Value x) { return softplus(x, 2.0, 3.0); }
Value clamp1(Value x) { return clamp(x, -0.75, 1.25); }
Value clamp_low(Value x) { return clamp(x, 0.3, kInf); }

const UnaryRow kUnary[] = {
    {"neg", neg, [](double x) { return -x; }},
    {"abs", abs, [](double x) { return std::fabs(x); }},
    {"square", square, [](double x) { return x * x; }},
    {"sign", sign, [](double x) { return x > 0   ? 1.0
                                         : x < 0 ? -1.0
                                                 : 0.0; }, -3, 3, false},
    {"floor", floor, [](double x) { return std::floor(x); }, -3, 3, false},
    {"ceil", ceil, [](double x) { return std::ceil(x); }, -3, 3, false},
    {"round", round, [](double x) { return std::nearbyint(x); }, -3, 3, false},
    {"exp", exp, [](double x) { return std::exp(x); }},
    {"log", log, [](double x) { return std::log(x); }, 0.2, 4},
    {"log1p", log1p, [](double x) { return std::log1p(x); }, -0.7, 4},
    {"expm1", expm1, [](double x) { return std::expm1(x); }},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.2, 4},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.3, 4},
    {"reciprocal", reciprocal, [](double x) { return 1 / x; }, 0.5, 4},
    {"sin", sin, [](double x) { return std::sin(x); }},
    {"cos", cos, [](double x) { return std::cos(x); }},
    {"tan", tan, [](double x) { return std::tan(x); }, -1, 1},
    {"asin", asin, [](double x) { return std::asin(x); }, -0.8, 0.8},
    {"acos", acos, [](double x) { return std::acos(x); }, -0.8, 0.8},
    {"atan", atan, [](double x) { return std::atan(x); }},
    {"sinh", sinh, [](double x) { return std::sinh(x); }, -2, 2},
    {"cosh", cosh, [](double x) { return std::cosh(x); }, -2, 2},
    {"tanh", tanh, [](double x) { return std::tanh(x); }},
    {"erf", erf, [](double x) { return std::erf(x); }},
    {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -5, 5},
    {"relu", relu, [](double x) { return x > 0 ? x : 0.0; }},
    {"leaky_relu", leaky, [](double x) { return x > 0 ? x : 0.2 * x; }},
    {"elu", elu2, [](double x) { return x > 0 ? x : 2 * std::expm1(x); }},
    {"silu", silu, [](double x) { return x / (1 + std::exp(-x)); }},
    {"gelu", gelu_erf, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
    {"gelu_tanh", gelu_tanh,
     [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
    {"softplus", softplus1, [](double x) { return std::log1p(std::exp(x)); }},
    {"softplus_scaled", softplus2, [](double x) { return 2 * x > 3 ? x : std::log1p(std::exp(2 * x)) / 2; }},
    {"hardswish", hardswish, [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }, -5, 5},
    {"mish", mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
    {"clamp", clamp1, [](double x) { return std::clamp(x, -0.75, 1.25); }},
    {"clamp_low", clamp_low, [](double x) { return std::max(x, 0.3); }},
};

OpCase unary_case(const UnaryRow& row, std::vector<int64_t> shape) {
  // Functions with steps and kinks: bf16 may fall on the other side of them.
  return {.name = row.name,
          .inputs = {real(std::move(shape), row.low, row.high)},
          .build = [&row](const Inputs& x) { return Outputs{row.op(x[0])}; },
          .reference = [&row](const Refs& x) { return Refs{mapped(x[0], row.reference)}; },
          .gradient = row.gradient,
          .low_precision = row.gradient,
          .tolerance_low = 0.05};
}

TEST(Elementwise, OneOperand) {
  for (const UnaryRow& row : kUnary) check(unary_case(row, {3, 7}));
}

TEST(Elementwise, OneOperandOfManyShapes) {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{}, {1}, {0}, {3, 0, 2}, {2, 3, 1, 5}}) {
    check(unary_case(kUnary[7], shape));
    check(unary_case(kUnary[29], shape));
  }
}

TEST(Elementwise, LargeEnoughForManyTilesAndThreads) {
  OpCase op_case = unary_case(kUnary[7], {3, 31003});
  op_case.gradient = false;  // finite differences take one run per element
  check(op_case);
}

// --- accuracy of the f32 vectors

// Returns numbers of every magnitude and sign, including denormals, infinities and NaN.
std::vector<float> all_magnitudes() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 20011)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (double x = -14; x < 14; x += 1e-3) values.push_back(static_cast<float>(x));
  for (float x : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-45f, 3.4028235e38f}) values.push_back(x);
  return values;
}

// Returns the distance in units of the last place of a float of that size.
double ulps(double got, double expected) {
  int exponent;
  std::frexp(std::max(std::fabs(expected), 1.2e-38), &exponent);
  return std::fabs(got - expected) / std::ldexp(1.0, exponent - 24);
}

struct AccuracyRow {
  const char* name;
  double limit;         // ulps
  double smallest = 0;  // below: absolute error, since the formula passes through denormals
};
// PyTorch's silu and gelu lose the same tails, and lose them earlier.
const AccuracyRow kAccuracy[] = {
    {"exp", 1.5},
    {"log", 1.5},
    {"log1p", 2},
    {"expm1", 2},
    {"sqrt", 0.5},
    {"rsqrt", 2},
    {"sin", 2},
    {"cos", 2},
    {"tan", 2},
    {"asin", 2},
    {"acos", 2},
    {"atan", 2},
    {"sinh", 2.5},
    {"cosh", 2.5},
    {"tanh", 3},
    {"erf", 2},
    {"sigmoid", 3, 1e-37},
    {"silu", 4, 1e-35},
    {"mish", 4, 1e-35},
    {"gelu", 10, 1e-37},
    {"softplus", 3},
};

const UnaryRow& unary_row(const std::string& name) {
  for (const UnaryRow& row : kUnary)
    if (name == row.name) return row;
  throw std::runtime_error("no row " + name);
}

double exact(const std::string& name, double x) {
  if (name == "gelu") return std::isinf(x) && x < 0 ? -0.0 : x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  if (name == "sigmoid") return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
  if (name == "softplus" && x > 20) return x;
  return unary_row(name).reference(x);
}

TEST(Elementwise, VectorsAreAccurateEverywhere) {
  const std::vector<float> values = all_magnitudes();
  const Tensor x = Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
  for (const AccuracyRow& row : kAccuracy) {
    const NamedTensors results = run_graph({{"x", x}}, [&](const Inputs& in) {
      return std::vector<std::pair<std::string, Value>>{{"y", unary_row(row.name).op(in[0])}};
    });
    const auto y = results.begin()->second.as<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      const double expected = exact(row.name, values[i]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(y[i])) << row.name << " of " << values[i];
      } else if (std::isinf(static_cast<float>(expected)) || std::isinf(y[i])) {
        ASSERT_TRUE(std::fabs(expected) > 3.4e38 && std::fabs(y[i]) > 3.4e38)
            << row.name << " of " << values[i];
      } else if (std::fabs(expected) < row.smallest) {
        ASSERT_LE(std::fabs(y[i] - expected), row.smallest) << row.name << " of " << values[i];
      } else {
        ASSERT_LE(ulps(y[i], expected), row.limit) << row.name << " of " << values[i] << " is " << y[i];
      }
    }
  }
}

// --- two operands

struct BinaryRow {
  const char* name;
  Value (*op)(Value, Value);
  Binary reference;
  double low = -3, high = 3;  // range of both operands
  bool gradient = true;
};

double floor_remainder(double a, double b) { return a - std::floor(a / b) * b; }

const BinaryRow kBinary[] = {
    {"add", add, [](double a, double b) { return a + b; }},
    {"sub", sub, [](double a, double b) { return a - b; }},
    {"mul", mul, [](double a, double b) { return a * b; }},
    {"div", div, [](double a, double b) { return a / b; }, 0.5, 3},
    {"floordiv", floordiv, [](double a, double b) { return std::floor(a / b); }, 0.5, 9, false},
    {"remainder", remainder, floor_remainder, 0.5, 9, false},
    {"pow", pow, [](double a, double b) { return std::pow(a, b); }, 0.5, 3},
    {"maximum", maximum, [](double a, double b) { return std::max(a, b); }},
    {"minimum", minimum, [](double a, double b) { return std::min(a, b); }},
    {"atan2", atan2, [](double a, double b) { return std::atan2(a, b); }},
};

OpCase binary_case(const BinaryRow& row, std::vector<int64_t> a, std::vector<int64_t> b) {
  return {.name = row.name,
          .inputs = {real(std::move(a), row.low, row.high), real(std::move(b), row.low, row.high)},
          .build = [&row](const Inputs& x) { return Outputs{row.op(x[0], x[1])}; },
          .reference = [&row](const Refs& x) { return Refs{mapped(x[0], x[1], row.reference)}; },
          .gradient = row.gradient,
          .low_precision = row.gradient,
          .tolerance_low = 0.06};
}

TEST(Elementwise, TwoOperands) {
  for (const BinaryRow& row : kBinary) check(binary_case(row, {4, 5}, {4, 5}));
}

TEST(Elementwise, Broadcasts) {
  using S = std::vector<int64_t>;
  const std::pair<S, S> shapes[] = {{{4, 5}, {5}},
                                    {{4, 5}, {4, 1}},
                                    {{4, 1}, {5}},
                                    {{}, {4, 5}},
                                    {{4, 5}, {1, 1}},
                                    {{2, 3, 4}, {3, 1}},
                                    {{2, 1, 4}, {3, 1}},
                                    {{2, 1, 4}, {1, 3, 4}},
                                    {{0, 5}, {1, 5}},
                                    {{}, {}},
                                    {{3, 1, 2, 1}, {1, 4, 1, 5}}};
  for (const auto& [a, b] : shapes) {
    check(binary_case(kBinary[1], a, b));
    check(binary_case(kBinary[2], b, a));
  }
}

// Covers rows that are cut into tiles, rows that share a tile, and operands that repeat across either.
TEST(Elementwise, BroadcastsOverTiles) {
  const auto plain = [](std::vector<int64_t> a, std::vector<int64_t> b) {
    OpCase c = binary_case(kBinary[1], std::move(a), std::move(b));
    c.gradient = false;
    check(c);
  };
  plain({7, 5000}, {5000});
  plain({7, 5000}, {7, 1});
  plain({900, 37}, {37});
  plain({900, 37}, {900, 1});
  plain({30, 1, 37}, {1, 40, 37});
  plain({2, 700, 3}, {2, 1, 3});
}

// --- exact values

void expect_values(const std::vector<std::pair<std::string, Tensor>>& inputs,
                   const std::function<Value(const Inputs&)>& build, const std::vector<double>& expected,
                   DType dtype) {
  const NamedTensors results = run_graph(inputs, [&](const Inputs& x) {
    return std::vector<std::pair<std::string, Value>>{{"y", build(x)}};
  });
  const Tensor& y = results.begin()->second;
  EXPECT_EQ(y.type().dtype, dtype);
  const std::vector<double> got = y.to_doubles();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i];
    else
      EXPECT_EQ(got[i], expected[i]) << "element " << i;
  }
}

template <class T>
Tensor row(std::vector<T> values) {
  return Tensor::of<T>({static_cast<int64_t>(values.size())}, values);
}

TEST(Elementwise, SpecialNumbers) {
  const Tensor x = row<double>({kNan, kInf, -kInf, 0.0, -2.5, 2.5});
  const auto one = [&](Value (*op)(Value), std::vector<double> expected, DType dtype = DType::f64) {
    expect_values(
        {{"x", x}}, [op](const Inputs& in) { return op(in[0]); }, expected, dtype);
  };
  one(isnan, {1, 0, 0, 0, 0, 0}, DType::boolean);
  one(isinf, {0, 1, 1, 0, 0, 0}, DType::boolean);
  one(isfinite, {0, 0, 0, 1, 1, 1}, DType::boolean);
  one(logical_not, {0, 0, 0, 1, 0, 0}, DType::boolean);
  one(relu, {kNan, kInf, 0, 0, 0, 2.5});
  one(round, {kNan, kInf, -kInf, 0, -2, 2});
  one(sign, {0, 1, -1, 0, -1, 1});
  one(tanh, {kNan, 1, -1, 0, std::tanh(-2.5), std::tanh(2.5)});
  one(clamp1, {kNan, 1.25, -0.75, 0, -0.75, 1.25});
}

TEST(Elementwise, PredicatesOfVectors) {
  const Tensor x = row<float>({NAN, INFINITY, -INFINITY, 0, -2.5});
  const auto one = [&](Value (*op)(Value), std::vector<double> expected) {
    expect_values(
        {{"x", x}}, [op](const Inputs& in) { return op(in[0]); }, expected, DType::boolean);
  };
  one(isnan, {1, 0, 0, 0, 0});
  one(isinf, {0, 1, 1, 0, 0});
  one(isfinite, {0, 0, 0, 1, 1});
  one(logical_not, {0, 0, 0, 1, 0});
}

TEST(Elementwise, SpecialNumbersOfVectors) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = row<float>({std::numeric_limits<float>::quiet_NaN(), inf, -inf, 0, -200, 200});
  const auto one = [&](Value (*op)(Value), std::vector<double> expected) {
    expect_values(
        {{"x", x}}, [op](const Inputs& in) { return op(in[0]); }, expected, DType::f32);
  };
  one(exp, {kNan, kInf, 0, 1, 0, kInf});
  one(expm1, {kNan, kInf, -1, 0, -1, kInf});
  one(log, {kNan, kInf, kNan, -kInf, kNan, std::log(200.0f)});
  one(log1p, {kNan, kInf, kNan, 0, kNan, std::log1p(200.0f)});
  one(tanh, {kNan, 1, -1, 0, -1, 1});
  one(erf, {kNan, 1, -1, 0, -1, 1});
  one(sigmoid, {kNan, 1, 0, 0.5, 0, 1});
  one(relu, {kNan, kInf, 0, 0, 0, 200});
  one(mish, {kNan, kInf, kNan, 0, 0, 200});
  one(rsqrt, {kNan, 0, kNan, kInf, kNan, 1 / std::sqrt(200.0f)});
}

TEST(Elementwise, NanWinsInMaximum) {
  const Tensor a = row<float>({1, NAN, 2, NAN}), b = row<float>({NAN, 1, 3, NAN});
  expect_values(
      {{"a", a}, {"b", b}}, [](const Inputs& x) { return maximum(x[0], x[1]); }, {kNan, kNan, 3, kNan},
      DType::f32);
  expect_values(
      {{"a", a}, {"b", b}}, [](const Inputs& x) { return minimum(x[0], x[1]); }, {kNan, kNan, 2, kNan},
      DType::f32);
}

TEST(Elementwise, PowOfSpecialOperands) {
  const Tensor a = row<float>({0, 0, -2, -2, 1, 4}), b = row<float>({0, 2, 3, 0.5f, NAN, -0.5f});
  expect_values(
      {{"a", a}, {"b", b}}, [](const Inputs& x) { return pow(x[0], x[1]); }, {1, 0, -8, kNan, 1, 0.5},
      DType::f32);
}

TEST(Elementwise, FloorDivisionAndRemainderHaveTheSignOfTheDivisor) {
  const std::vector<float> a = {7, -7, 7, -7, 6, 0, 5}, b = {2, 2, -2, -2, -3, -3, 0};
  expect_values(
      {{"a", row<float>(a)}, {"b", row<float>(b)}}, [](const Inputs& x) { return floordiv(x[0], x[1]); },
      {3, -4, -4, 3, -2, 0, kInf}, DType::f32);
  expect_values(
      {{"a", row<float>(a)}, {"b", row<float>(b)}}, [](const Inputs& x) { return remainder(x[0], x[1]); },
      {1, 1, -1, -1, 0, 0, kNan}, DType::f32);
  const Tensor wide = row<float>({1, -1, 0, 3, -INFINITY}),
               divisors = row<float>({-INFINITY, INFINITY, -INFINITY, INFINITY, 2});
  expect_values(
      {{"a", wide}, {"b", divisors}}, [](const Inputs& x) { return floordiv(x[0], x[1]); },
      {-1, -1, 0, 0, kNan}, DType::f32);
  expect_values(
      {{"a", wide}, {"b", divisors}}, [](const Inputs& x) { return remainder(x[0], x[1]); },
      {-kInf, kInf, 0, 3, kNan}, DType::f32);
  const Tensor ia = row<int32_t>({7, -7, 7, -7, 6}), ib = row<int32_t>({2, 2, -2, -2, -3});
  expect_values(
      {{"a", ia}, {"b", ib}}, [](const Inputs& x) { return floordiv(x[0], x[1]); }, {3, -4, -4, 3, -2},
      DType::i32);
  expect_values(
      {{"a", ia}, {"b", ib}}, [](const Inputs& x) { return remainder(x[0], x[1]); }, {1, 1, -1, -1, 0},
      DType::i32);
}

TEST(Elementwise, IntegersWrapInTheirOwnWidth) {
  const Tensor a = row<int8_t>({127, -128, 100, -128}), b = row<int8_t>({1, -1, 3, -1});
  const auto two = [&](Value (*op)(Value, Value), std::vector<double> expected) {
    expect_values(
        {{"a", a}, {"b", b}}, [op](const Inputs& x) { return op(x[0], x[1]); }, expected, DType::i8);
  };
  two(add, {-128, 127, 103, 127});
  two(mul, {127, -128, 44, -128});
  two(floordiv, {127, -128, 33, -128});
  expect_values(
      {{"a", a}}, [](const Inputs& x) { return abs(x[0]); }, {127, -128, 100, -128}, DType::i8);
  const int64_t least = std::numeric_limits<int64_t>::min();
  expect_values(
      {{"a", row<int64_t>({least, 5})}, {"b", row<int64_t>({-1, -1})}},
      [](const Inputs& x) { return floordiv(x[0], x[1]); }, {static_cast<double>(least), -5}, DType::i64);
  expect_values(
      {{"a", row<uint8_t>({0, 200, 255})}}, [](const Inputs& x) { return neg(x[0]); }, {0, 56, 1}, DType::u8);
}

TEST(Elementwise, IntegerPowers) {
  expect_values(
      {{"a", row<int32_t>({2, -3, 1, -1, -1, 5, 7})}, {"b", row<int32_t>({10, 3, -5, -3, -2, -1, 0})}},
      [](const Inputs& x) { return pow(x[0], x[1]); }, {1024, -27, 1, -1, 1, 0, 1}, DType::i32);
}

TEST(Elementwise, IntegersBecomeRealWhereTheFunctionIs) {
  const Tensor a = row<int64_t>({1, 4, 9});
  expect_values(
      {{"a", a}}, [](const Inputs& x) { return sqrt(x[0]); }, {1, 2, 3}, DType::f32);
  expect_values(
      {{"a", a}}, [](const Inputs& x) { return x[0] / 2; }, {0.5, 2, 4.5}, DType::f32);
  expect_values(
      {{"a", a}}, [](const Inputs& x) { return x[0] + 0.5; }, {1.5, 4.5, 9.5}, DType::f32);
  expect_values(
      {{"a", a}}, [](const Inputs& x) { return x[0] + 2; }, {3, 6, 11}, DType::i64);
  expect_values(
      {{"a", a}}, [](const Inputs& x) { return clamp(x[0], 1.5, 8.25); }, {1.5, 4, 8.25}, DType::f32);
  expect_values(
      {{"a", a}}, [](const Inputs& x) { return clamp(x[0], 2, kInf); }, {2, 4, 9}, DType::i64);
}

// A scalar in a division that gives reals need not fit the integer dtype of the other operand.
TEST(Elementwise, IntegersDividedByScalarsThatDoNotFitThem) {
  const Tensor a = row<uint8_t>({1, 128, 255});
  expect_values(
      {{"a", a}}, [](const Inputs& x) { return x[0] / 256; }, {1.0 / 256, 0.5, 255.0 / 256}, DType::f32);
  expect_values(
      {{"a", a}}, [](const Inputs& x) { return x[0] / -2; }, {-0.5, -64, -127.5}, DType::f32);
  expect_values(
      {{"a", a}}, [](const Inputs& x) { return -512 / x[0]; }, {-512, -4, -512.0f / 255}, DType::f32);
}

TEST(Elementwise, ComparisonsAndLogic) {
  const Tensor a = row<float>({1, 2, 3, NAN}), b = row<float>({2, 2, 2, 2});
  const auto two = [&](Value (*op)(Value, Value), std::vector<double> expected) {
    expect_values(
        {{"a", a}, {"b", b}}, [op](const Inputs& x) { return op(x[0], x[1]); }, expected, DType::boolean);
  };
  two(eq, {0, 1, 0, 0});
  two(ne, {1, 0, 1, 1});
  two(lt, {1, 0, 0, 0});
  two(le, {1, 1, 0, 0});
  two(gt, {0, 0, 1, 0});
  two(ge, {0, 1, 1, 0});
  const Tensor p = row<int32_t>({0, 5, 0, -1}), q = row<bool>({false, true, true, false});
  const auto logic = [&](Value (*op)(Value, Value), std::vector<double> expected, DType dtype) {
    expect_values(
        {{"p", p}, {"q", q}}, [op](const Inputs& x) { return op(x[0], x[1]); }, expected, dtype);
  };
  logic(logical_and, {0, 1, 0, 0}, DType::boolean);
  logic(logical_or, {0, 1, 1, 1}, DType::boolean);
  logic(add, {0, 6, 1, -1}, DType::i32);
  expect_values(
      {{"q", q}}, [](const Inputs& x) { return add(x[0], x[0]); }, {0, 1, 1, 0}, DType::boolean);
  expect_values(
      {{"q", q}}, [](const Inputs& x) { return maximum(x[0], logical_not(x[0])); }, {1, 1, 1, 1},
      DType::boolean);
}

TEST(Elementwise, WhereTakesGradientsOnBothSides) {
  check({.name = "where",
         .inputs = {booleans({4, 5}), real({4, 5}), real({5})},
         .build = [](const Inputs& x) { return Outputs{where(x[0], x[1], x[2])}; },
         .reference =
             [](const Refs& x) {
               Ref y = x[1];
               for (int64_t i = 0; i < y.numel(); ++i) y[i] = x[0][i] != 0 ? x[1][i] : x[2][i % 5];
               return Refs{y};
             }});
}

// At a kink of a function its gradient is the one PyTorch gives.
TEST(Elementwise, SubgradientsAtKinks) {
  struct Kink {
    Value (*op)(Value);
    double at, slope;
  };
  const Kink kinks[] = {{relu, 0, 0},      {abs, 0, 0},     {clamp1, -0.75, 1}, {clamp1, 1.25, 1},
                        {clamp1, 1.5, 0},  {leaky, 0, 0.2}, {elu2, 0, 2},       {hardswish, -3, 0},
                        {hardswish, 3, 1}, {sign, 1, 0}};
  for (const Kink& kink : kinks)
    expect_values(
        {{"x", row<double>({kink.at})}},
        [&](const Inputs& x) { return passes::gradients(x.graph, sum(kink.op(x[0])), {x[0]})[0]; },
        {kink.slope}, DType::f64);
}

TEST(Elementwise, SlopesAtNanAreNan) {
  for (Value (*op)(Value) : {elu2, hardswish, silu, mish, gelu_erf, gelu_tanh})
    expect_values(
        {{"x", row<double>({kNan, 1e9})}},
        [&](const Inputs& x) { return passes::gradients(x.graph, sum(op(x[0])), {x[0]})[0]; }, {kNan, 1},
        DType::f64);
}

// --- shapes and dtypes

TensorType type_of(DType dtype, int rank) {
  return {dtype, Shape(std::vector<Dim>(static_cast<size_t>(rank), Dim(2)))};
}

TEST(Elementwise, ScalarsOfALowerCategoryDoNotWiden) {
  struct Row {
    TensorType a, b;
    DType result;
  };
  const Row rows[] = {
      {type_of(DType::f32, 1), type_of(DType::f64, 0), DType::f32},
      {type_of(DType::bf16, 2), type_of(DType::f32, 0), DType::bf16},
      {type_of(DType::bf16, 2), type_of(DType::f32, 1), DType::f32},
      {type_of(DType::i8, 1), type_of(DType::i64, 0), DType::i8},
      {type_of(DType::i64, 1), type_of(DType::f32, 0), DType::f32},
      {type_of(DType::boolean, 1), type_of(DType::u8, 0), DType::u8},
      {type_of(DType::f32, 0), type_of(DType::f64, 0), DType::f64},
      {type_of(DType::u8, 1), type_of(DType::i8, 1), DType::i16},
      {type_of(DType::bf16, 1), type_of(DType::f16, 1), DType::f32},
  };
  for (const Row& row : rows) {
    const auto types = infer_case({row.a, row.b}, [](const Inputs& x) { return Outputs{x[0] + x[1]}; });
    EXPECT_EQ(types[0].dtype, row.result) << row.a.to_string() << " + " << row.b.to_string();
  }
}

TEST(Elementwise, SymbolsBroadcast) {
  const Dim n = Dim::symbol("n");
  const auto types = infer_case({{DType::f32, {n, 1}}, {DType::f32, {3}}}, [](const Inputs& x) {
    return Outputs{x[0] * x[1], x[0] < x[1]};
  });
  EXPECT_EQ(types[0].to_string(), "f32[n,3]");
  EXPECT_EQ(types[1].to_string(), "bool[n,3]");
}

TEST(Elementwise, RefusesWhatMeansNothing) {
  const auto with = [](std::vector<TensorType> types, const std::function<Value(const Inputs&)>& build) {
    infer_case(types, [&](const Inputs& x) { return Outputs{build(x)}; });
  };
  expect_error(
      [&] {
        with({{DType::f32, {2, 3}}, {DType::f32, {4}}}, [](const Inputs& x) { return x[0] + x[1]; });
      },
      {"[2,3]", "[4]", "add"});
  expect_error(
      [&] {
        with({{DType::boolean, {2}}}, [](const Inputs& x) { return neg(x[0]); });
      },
      {"bool[2]", "cast"});
  expect_error(
      [&] {
        with({{DType::boolean, {2}}}, [](const Inputs& x) { return x[0] - x[0]; });
      },
      {"bool[2]"});
  expect_error(
      [&] {
        with({{DType::f32, {2}}}, [](const Inputs& x) { return where(x[0], x[0], x[0]); });
      },
      {"condition", "f32[2]", "bool"});
  expect_error(
      [&] {
        with({{DType::i32, {2}}}, [](const Inputs& x) { return pow(x[0], -1); });
      },
      {"power -1", "i32[2]", "cast"});
}

TEST(Elementwise, IntegerDivisionByZeroIsAnError) {
  const Tensor a = row<int32_t>({1, 2}), b = row<int32_t>({1, 0});
  expect_error(
      [&] {
        run_graph({{"a", a}, {"b", b}}, [](const Inputs& x) {
          return std::vector<std::pair<std::string, Value>>{{"y", floordiv(x[0], x[1])}};
        });
      },
      {"division by zero", "floordiv"});
}

}  // namespace
}  // namespace genesis::testing
