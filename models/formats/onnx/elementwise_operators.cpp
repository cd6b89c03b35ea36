// Operators on elements: arithmetic, functions, comparisons and logic.
#include <cmath>
#include <limits>

#include "builder/functions.h"
#include "builder/math_functions.h"
#include "models/formats/onnx/integers.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"

namespace genesis::models::onnx {
namespace {

// Before version 7 operands had to be told that they broadcast: the second one from an axis on.
Value second(Call& call) {
  const Value a = call.tensor(0), b = call.tensor(1);
  if (call.version() >= 7 || !call.has_attribute("broadcast")) return b;
  const bool broadcasts = call.attribute("broadcast", 0) != 0;
  const int64_t axis = call.attribute("axis", a.rank() - b.rank());
  if (!broadcasts) return b;
  Shape shape = b.shape();
  for (int64_t i = axis + b.rank(); i < a.rank(); ++i) shape.push_back(1);
  return reshape(b, shape);
}
template <Value (*function)(Value, Value)>
Results both(Call& call) {
  const Value b = second(call);
  return {item_of(function(call.tensor(0), b))};
}

// Functions that ONNX defines for integers, too, keep their type.
template <Value (*function)(Value)>
Results same_type(Call& call) {
  const Value x = call.tensor(0);
  return {item_of(cast(function(x), x.dtype()))};
}

// --- arithmetic

Value divided(Value a, Value b) { return is_float(a.dtype()) ? a / b : quotient_toward_zero(a, b); }
Results quotient(Call& call) {
  const Value a = call.tensor(0), b = second(call);
  if (call.element(0) == OnnxElement::kU64) return {item_of(quotient_of_u64(a, b))};
  if (!is_float(a.dtype()) && call.try_sizes(0) && call.try_sizes(1)) {
    // Sizes: an exact quotient stays a polynomial.
    const Value exact = floordiv(a, b);
    if (!call.environment().known.tensor(exact) && call.environment().known.sizes(exact))
      return {item_of(exact)};
  }
  return {item_of(divided(a, b))};
}
Value modulo(Call& call) {
  const Value a = call.tensor(0), b = call.tensor(1);
  const bool has_sign_of_a = call.attribute("fmod", 0) != 0;
  if (call.element(0) == OnnxElement::kU64) return a - quotient_of_u64(a, b) * b;
  if (!has_sign_of_a) return remainder(a, b);
  const Value r = remainder(a, b);
  const Value moves = logical_and(r != 0, logical_xor(a < 0, b < 0));
  return where(moves, r - b, r);
}
Value power(Call& call) {
  const Value a = call.tensor(0), b = second(call);
  return cast(pow(a, b), a.dtype());
}

template <Value (*function)(Value, Value)>
Value folded(Call& call) {
  std::vector<Value> xs = call.tensors();
  if (xs.empty()) fail("it has no operands");
  const bool is_u64 = call.element(0) == OnnxElement::kU64;
  if (is_u64)
    for (Value& x : xs) x = ordered_u64(x);
  Value result = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) result = function(result, xs[i]);
  return is_u64 ? ordered_u64(result) : result;
}
Value summed(Call& call) {
  const std::vector<Value> xs = call.tensors();
  if (xs.empty()) fail("it has no operands");
  Value result = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) result = result + xs[i];
  return result;
}
Value averaged(Call& call) { return summed(call) / static_cast<double>(call.count()); }

template <Value (*function)(Value, Value)>
Results compared(Call& call) {
  Value a = call.tensor(0), b = second(call);
  if (call.element(0) == OnnxElement::kU64) a = ordered_u64(a), b = ordered_u64(b);
  return {item_of(function(a, b))};
}

// If the limits contradict each other, the upper one wins.
Value clipped(Call& call) {
  Value x = call.tensor(0);
  if (call.version() < 11) {
    const double limit = std::numeric_limits<float>::max();
    return clamp(x, call.real("min", -limit), call.real("max", limit));
  }
  const bool is_u64 = call.element(0) == OnnxElement::kU64;
  const auto ordered = [&](Value y) { return is_u64 ? ordered_u64(y) : y; };
  x = ordered(x);
  if (call.has(1)) x = maximum(x, ordered(call.tensor(1)));
  if (call.has(2)) x = minimum(x, ordered(call.tensor(2)));
  return ordered(x);
}

// --- functions

Value leaky(Call& call) { return leaky_relu(call.tensor(0), call.real("alpha", 0.01)); }
Value exponential_linear(Call& call) { return elu(call.tensor(0), call.real("alpha", 1)); }
Value scaled_exponential_linear(Call& call) {
  const bool is_old = call.version() < 6;
  const double alpha = call.real("alpha", is_old ? 1.6732 : 1.67326319217681884765625),
               gamma = call.real("gamma", is_old ? 1.0507 : 1.05070102214813232421875);
  return elu(call.tensor(0), alpha) * gamma;
}
Value continuous_linear(Call& call) {
  const Value x = call.tensor(0);
  const double alpha = call.real("alpha", 1);
  return relu(x) + minimum(expm1(x / alpha) * alpha, Scalar(0.0));
}
Value hard_sigmoid(Call& call) {
  return clamp(call.tensor(0) * call.real("alpha", 0.2) + call.real("beta", 0.5), 0, 1);
}
Value thresholded(Call& call) {
  const Value x = call.tensor(0);
  return where(x > call.real("alpha", 1), x, Scalar(0.0));
}
Value shrunk(Call& call) {
  const Value x = call.tensor(0);
  const double limit = call.real("lambd", 0.5), bias = call.real("bias", 0);
  const Value above = where(x > limit, x - bias, Scalar(0.0));
  return cast(where(x < -limit, x + bias, above), x.dtype());
}
Value gaussian_linear(Call& call) {
  const std::string kind = call.text("approximate", "none");
  if (kind != "none" && kind != "tanh") fail("its attribute 'approximate' is '{}'", kind);
  return gelu(call.tensor(0), kind == "tanh" ? GeluKind::kTanh : GeluKind::kErf);
}
Value swish(Call& call) {
  const Value x = call.tensor(0);
  return x * sigmoid(x * call.real("alpha", 1));
}
Value swish_gated(Call& call) {
  const Value x = call.tensor(0);
  const double alpha = call.real("alpha", 1);
  return x * sigmoid(x * alpha) * call.tensor(1);
}
Value parametric(Call& call) {
  const Value x = call.tensor(0);
  Value slope = call.tensor(1);
  if (slope.rank() == 1 && x.rank() > 2 && (call.version() < 7) && slope.dim(0) != Dim(1)) {
    Shape shape(std::vector<Dim>(static_cast<size_t>(x.rank()) - 1, Dim(1)));
    shape[0] = slope.dim(0);
    slope = reshape(slope, shape);
  }
  return where(x < 0, slope * x, x);
}
Value soft_plus(Call& call) { return softplus(call.tensor(0), 1.0, 1e30); }

Value is_infinite(Call& call) {
  const Value x = call.tensor(0);
  const bool below = call.attribute("detect_negative", 1) != 0,
             above = call.attribute("detect_positive", 1) != 0;
  if (below && above) return isinf(x);
  if (!below && !above) return logical_and(isinf(x), call.g().zeros({}, DType::boolean));
  return logical_and(isinf(x), above ? x > 0 : x < 0);
}

// --- logic and copies

Value chosen(Call& call) { return where(call.tensor(0), call.tensor(1), call.tensor(2)); }
Results chosen_items(Call& call) {
  const Value condition = call.tensor(0);
  if (const auto known = call.try_sizes(0); known && known->elements.size() == 1 && condition.rank() == 0) {
    const size_t place = known->elements[0] == Dim(0) ? 2 : 1;
    const Value other = call.tensor(3 - place), x = call.tensor(place);
    return {item_of(expand(x, broadcast(x.shape(), other.shape())), call.element(1))};
  }
  return {item_of(chosen(call), call.element(1))};
}

Results same(Call& call) { return {call.item(0)}; }

Results dropped(Call& call) {
  call.accept_any("seed"), call.accept_any("is_test"), call.accept_any("consumed_inputs");
  const double ratio = call.has(1) ? call.number(1) : call.real("ratio", 0.5);
  const bool trains = call.has(2) && call.integer(2) != 0;
  const Value x = call.tensor(0);
  if (trains && ratio != 0)
    fail("dropout in training mode is not read, since its random numbers are not those of ONNX");
  call.accept_any("ratio");
  Results results = {item_of(x)};
  if (call.wants(1))
    results.push_back(item_of(call.g().ones(x.shape(), call.version() >= 10 ? DType::boolean : x.dtype())));
  return results;
}

const Operators kElementwiseOperators = {
    {"Abs", unary<abs>, 1, Takes::kUnsigned},
    {"Acos", unary<acos>},
    {"Acosh", unary<acosh>},
    {"Add", both<add>, 1, Takes::kUnsigned},
    {"And", both<logical_and>},
    {"Asin", unary<asin>},
    {"Asinh", unary<asinh>},
    {"Atan", unary<atan>},
    {"Atanh", unary<atanh>},
    {"Ceil", unary<ceil>},
    {"Celu", one<continuous_linear>},
    {"Clip", one<clipped>, 6, Takes::kUnsigned},
    {"Cos", unary<cos>},
    {"Cosh", unary<cosh>},
    {"Div", quotient, 1, Takes::kUnsigned},
    {"Dropout", dropped},
    {"Elu", one<exponential_linear>},
    {"Equal", both<eq>, 1, Takes::kUnsigned},
    {"Erf", unary<erf>},
    {"Exp", unary<exp>},
    {"Floor", unary<floor>},
    {"Gelu", one<gaussian_linear>},
    {"Greater", compared<gt>, 1, Takes::kUnsigned},
    {"GreaterOrEqual", compared<ge>, 1, Takes::kUnsigned},
    {"HardSigmoid", one<hard_sigmoid>},
    {"HardSwish", unary<hardswish>},
    {"Identity", same, 1, Takes::kAny},
    {"IsInf", one<is_infinite>},
    {"IsNaN", unary<isnan>},
    {"LeakyRelu", one<leaky>},
    {"Less", compared<lt>, 1, Takes::kUnsigned},
    {"LessOrEqual", compared<le>, 1, Takes::kUnsigned},
    {"Log", unary<log>},
    {"Max", one<folded<maximum>>, 1, Takes::kUnsigned},
    {"Mean", one<averaged>},
    {"Min", one<folded<minimum>>, 1, Takes::kUnsigned},
    {"Mish", unary<mish>},
    {"Mod", one<modulo>, 1, Takes::kUnsigned},
    {"Mul", both<mul>, 1, Takes::kUnsigned},
    {"Neg", unary<neg>},
    {"Not", unary<logical_not>},
    {"Or", both<logical_or>},
    {"PRelu", one<parametric>},
    {"Pow", one<power>, 1, Takes::kUnsigned},
    {"Reciprocal", unary<reciprocal>},
    {"Relu", same_type<relu>},
    {"Round", unary<round>},
    {"Selu", one<scaled_exponential_linear>},
    {"Shrink", one<shrunk>},
    {"Sigmoid", unary<sigmoid>},
    {"Sign", unary<sign>, 1, Takes::kUnsigned},
    {"Sin", unary<sin>},
    {"Sinh", unary<sinh>},
    {"Softplus", one<soft_plus>},
    {"Softsign", unary<softsign>},
    {"Sqrt", unary<sqrt>},
    {"Sub", both<sub>, 1, Takes::kUnsigned},
    {"Sum", one<summed>},
    {"SwiGLU", one<swish_gated>},
    {"Swish", one<swish>},
    {"Tan", unary<tan>},
    {"Tanh", unary<tanh>},
    {"ThresholdedRelu", one<thresholded>},
    {"Where", chosen_items, 1, Takes::kAny},
    {"Xor", both<logical_xor>},
    {"com.microsoft::Gelu", one<gaussian_linear>},
};

}  // namespace

const Operators& elementwise_operators() { return kElementwiseOperators; }

}  // namespace genesis::models::onnx
