// Elementwise ops with PyTorch's semantics: operands broadcast and promote. A Scalar operand takes the tensor's dtype (a real
// scalar with an integer tensor gives f32). Each op's formula is written once, in schema/ops/elementwise/formulas.h.
//
//     x = x * 2 + 1;
//     x += where(x < 0, -x, 0);
//     const Value accuracy = mean(cast(predicted == target, DType::f32));
#pragma once

#include <algorithm>

#include "schema/graph/graph.h"

namespace genesis {

enum class GeluKind : uint8_t { kErf, kTanh };  // attribute `approximate`: "none", "tanh"
template <>
struct EnumNames<GeluKind> {
  static constexpr std::string_view names[] = {"none", "tanh"};
};

namespace ops {

inline constexpr InPlace kOverAny[] = {{0, 0}, {0, 1}, {0, 2}};

// A string literal as a template argument.
template <size_t size>
struct Text {
  char characters[size];
  consteval Text(const char (&literal)[size]) { std::copy_n(literal, size, characters); }
  constexpr std::string_view view() const { return {characters, size - 1}; }
};

// An op without attributes. Its name is also the name of its formula. Its rules for types and gradients stand in its row in
// unary.cpp, activation.cpp, binary.cpp or compare.cpp.
template <Text name, Text doc, int inputs = 1, Precision precision = Precision::kFollow,
          bool commutative = false>
struct Formula : NoAttributes {
  static constexpr OpInfo info{.name = name.view(),
                               .doc = doc.view(),
                               .inputs = {inputs, inputs},
                               .precision = precision,
                               .elementwise = true,
                               .commutative = commutative,
                               .in_place = std::span(kOverAny).first(inputs)};
};

struct Neg : Formula<"neg", "-x."> {};
struct Abs : Formula<"abs", "The magnitude of x."> {};
struct Square : Formula<"square", "x * x."> {};
struct Sign : Formula<"sign", "-1, 0 or 1 by the sign of x; 0 for NaN."> {};
struct Floor : Formula<"floor", "The largest integer not above x."> {};
struct Ceil : Formula<"ceil", "The smallest integer not below x."> {};
struct Round : Formula<"round", "The nearest integer; halves go to the even one."> {};
struct Exp : Formula<"exp", "e to the power x.", 1, Precision::kWide> {};
struct Log : Formula<"log", "The natural logarithm of x.", 1, Precision::kWide> {};
struct Log1p : Formula<"log1p", "log(1 + x), accurate near 0.", 1, Precision::kWide> {};
struct Expm1 : Formula<"expm1", "exp(x) - 1, accurate near 0.", 1, Precision::kWide> {};
struct Sqrt : Formula<"sqrt", "The square root of x.", 1, Precision::kWide> {};
struct Rsqrt : Formula<"rsqrt", "1 / sqrt(x).", 1, Precision::kWide> {};
struct Reciprocal : Formula<"reciprocal", "1 / x.", 1, Precision::kWide> {};
struct Sin : Formula<"sin", "The sine of x in radians.", 1, Precision::kWide> {};
struct Cos : Formula<"cos", "The cosine of x in radians.", 1, Precision::kWide> {};
struct Tan : Formula<"tan", "The tangent of x in radians.", 1, Precision::kWide> {};
struct Asin : Formula<"asin", "The angle whose sine is x.", 1, Precision::kWide> {};
struct Acos : Formula<"acos", "The angle whose cosine is x.", 1, Precision::kWide> {};
struct Atan : Formula<"atan", "The angle whose tangent is x.", 1, Precision::kWide> {};
struct Sinh : Formula<"sinh", "The hyperbolic sine of x.", 1, Precision::kWide> {};
struct Cosh : Formula<"cosh", "The hyperbolic cosine of x.", 1, Precision::kWide> {};
struct Tanh : Formula<"tanh", "The hyperbolic tangent of x.", 1, Precision::kWide> {};
struct Erf : Formula<"erf", "The error function of x.", 1, Precision::kWide> {};

struct Sigmoid : Formula<"sigmoid", "1 / (1 + exp(-x)).", 1, Precision::kWide> {};
struct Relu : Formula<"relu", "max(x, 0)."> {};
struct Silu : Formula<"silu", "x * sigmoid(x).", 1, Precision::kWide> {};
struct Hardswish : Formula<"hardswish", "x * clamp(x + 3, 0, 6) / 6."> {};
struct Mish : Formula<"mish", "x * tanh(log(1 + exp(x))).", 1, Precision::kWide> {};

struct Add : Formula<"add", "a + b.", 2, Precision::kFollow, true> {};
struct Sub : Formula<"sub", "a - b.", 2> {};
struct Mul : Formula<"mul", "a * b.", 2, Precision::kFollow, true> {};
struct Div : Formula<"div", "a / b; integers give f32.", 2> {};
struct Floordiv : Formula<"floordiv", "floor(a / b).", 2> {};
struct Remainder : Formula<"remainder", "a - floor(a / b) * b: has the sign of b.", 2> {};
struct Pow : Formula<"pow", "a to the power b.", 2, Precision::kWide> {};
struct Maximum : Formula<"maximum", "The larger of a and b; NaN wins.", 2, Precision::kFollow, true> {};
struct Minimum : Formula<"minimum", "The smaller of a and b; NaN wins.", 2, Precision::kFollow, true> {};
struct Atan2 : Formula<"atan2", "The angle of the point (b, a), in (-pi, pi].", 2, Precision::kWide> {};

struct Isnan : Formula<"isnan", "True where x is NaN."> {};
struct Isinf : Formula<"isinf", "True where x is infinite."> {};
struct Isfinite : Formula<"isfinite", "True where x is neither infinite nor NaN."> {};
struct LogicalNot : Formula<"logical_not", "True where x is 0."> {};
struct Eq : Formula<"eq", "a == b.", 2, Precision::kFollow, true> {};
struct Ne : Formula<"ne", "a != b.", 2, Precision::kFollow, true> {};
struct Lt : Formula<"lt", "a < b.", 2> {};
struct Le : Formula<"le", "a <= b.", 2> {};
struct Gt : Formula<"gt", "a > b.", 2> {};
struct Ge : Formula<"ge", "a >= b.", 2> {};
struct LogicalAnd : Formula<"logical_and", "True where neither a nor b is 0.", 2, Precision::kFollow, true> {
};
struct LogicalOr : Formula<"logical_or", "True where a or b is not 0.", 2, Precision::kFollow, true> {};
struct Where : Formula<"where", "a where the condition holds, else b.", 3> {};

// Ops with attributes.

struct LeakyRelu {
  static constexpr OpInfo info{.name = "leaky_relu",
                               .doc = "x where x > 0, else negative_slope * x.",
                               .precision = Precision::kFollow,
                               .elementwise = true,
                               .in_place = kOverFirst};
  double negative_slope = 0.01;
  static void fields(auto& self, auto&& visit) { visit("negative_slope", self.negative_slope); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Elu {
  static constexpr OpInfo info{.name = "elu",
                               .doc = "x where x > 0, else alpha * (exp(x) - 1).",
                               .precision = Precision::kWide,
                               .elementwise = true,
                               .in_place = kOverFirst};
  double alpha = 1.0;
  static void fields(auto& self, auto&& visit) { visit("alpha", self.alpha); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Gelu {
  static constexpr OpInfo info{
      .name = "gelu",
      .doc = "x times the normal distribution function of x, exact (none) or by tanh.",
      .precision = Precision::kWide,
      .elementwise = true,
      .in_place = kOverFirst};
  GeluKind approximate = GeluKind::kErf;
  static void fields(auto& self, auto&& visit) { visit("approximate", self.approximate); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Softplus {
  static constexpr OpInfo info{.name = "softplus",
                               .doc = "log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold.",
                               .precision = Precision::kWide,
                               .elementwise = true,
                               .in_place = kOverFirst};
  double beta = 1.0, threshold = 20.0;
  static void fields(auto& self, auto&& visit) {
    visit("beta", self.beta);
    visit("threshold", self.threshold);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Clamp {
  static constexpr OpInfo info{.name = "clamp",
                               .doc = "x limited to [min, max]; NaN stays NaN.",
                               .precision = Precision::kFollow,
                               .elementwise = true,
                               .in_place = kOverFirst};
  double min = 0, max = 0;
  static void fields(auto& self, auto&& visit) {
    visit("min", self.min);
    visit("max", self.max);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

// Adds a node of an op without attributes, given by its name.
Value formula(std::string_view op, const std::vector<Value>& inputs);

// Functions of one operand; transcendental functions of integers give f32.
inline Value neg(Value x) { return formula(ops::Neg::info.name, {x}); }
inline Value abs(Value x) { return formula(ops::Abs::info.name, {x}); }
inline Value exp(Value x) { return formula(ops::Exp::info.name, {x}); }
inline Value log(Value x) { return formula(ops::Log::info.name, {x}); }
inline Value log1p(Value x) { return formula(ops::Log1p::info.name, {x}); }
inline Value expm1(Value x) { return formula(ops::Expm1::info.name, {x}); }
inline Value sqrt(Value x) { return formula(ops::Sqrt::info.name, {x}); }
inline Value rsqrt(Value x) { return formula(ops::Rsqrt::info.name, {x}); }
inline Value reciprocal(Value x) { return formula(ops::Reciprocal::info.name, {x}); }
inline Value square(Value x) { return formula(ops::Square::info.name, {x}); }
inline Value sin(Value x) { return formula(ops::Sin::info.name, {x}); }
inline Value cos(Value x) { return formula(ops::Cos::info.name, {x}); }
inline Value tan(Value x) { return formula(ops::Tan::info.name, {x}); }
inline Value asin(Value x) { return formula(ops::Asin::info.name, {x}); }
inline Value acos(Value x) { return formula(ops::Acos::info.name, {x}); }
inline Value atan(Value x) { return formula(ops::Atan::info.name, {x}); }
inline Value sinh(Value x) { return formula(ops::Sinh::info.name, {x}); }
inline Value cosh(Value x) { return formula(ops::Cosh::info.name, {x}); }
inline Value tanh(Value x) { return formula(ops::Tanh::info.name, {x}); }
inline Value erf(Value x) { return formula(ops::Erf::info.name, {x}); }
inline Value sigmoid(Value x) { return formula(ops::Sigmoid::info.name, {x}); }
inline Value relu(Value x) { return formula(ops::Relu::info.name, {x}); }
Value leaky_relu(Value x, double negative_slope = 0.01);
Value elu(Value x, double alpha = 1.0);
inline Value silu(Value x) { return formula(ops::Silu::info.name, {x}); }
Value gelu(Value x, GeluKind approximate = GeluKind::kErf);
Value softplus(Value x, double beta = 1.0, double threshold = 20.0);
inline Value hardswish(Value x) { return formula(ops::Hardswish::info.name, {x}); }
inline Value mish(Value x) { return formula(ops::Mish::info.name, {x}); }
inline Value sign(Value x) { return formula(ops::Sign::info.name, {x}); }
inline Value floor(Value x) { return formula(ops::Floor::info.name, {x}); }
inline Value ceil(Value x) { return formula(ops::Ceil::info.name, {x}); }
inline Value round(Value x) { return formula(ops::Round::info.name, {x}); }  // halves go to the even integer
// NaN stays NaN; an infinite bound has no effect; a fractional bound converts integers to f32.
Value clamp(Value x, double min, double max);
inline Value isnan(Value x) { return formula(ops::Isnan::info.name, {x}); }
inline Value isinf(Value x) { return formula(ops::Isinf::info.name, {x}); }
inline Value isfinite(Value x) { return formula(ops::Isfinite::info.name, {x}); }
inline Value logical_not(Value x) { return formula(ops::LogicalNot::info.name, {x}); }

// Functions of two operands. The operators below call them.
inline Value add(Value a, Value b) { return formula(ops::Add::info.name, {a, b}); }
inline Value sub(Value a, Value b) { return formula(ops::Sub::info.name, {a, b}); }
inline Value mul(Value a, Value b) { return formula(ops::Mul::info.name, {a, b}); }
inline Value div(Value a, Value b) {
  return formula(ops::Div::info.name, {a, b});
}  // true division: integers give f32
inline Value floordiv(Value a, Value b) { return formula(ops::Floordiv::info.name, {a, b}); }
inline Value remainder(Value a, Value b) {
  return formula(ops::Remainder::info.name, {a, b});
}  // sign of the divisor
inline Value pow(Value a, Value b) { return formula(ops::Pow::info.name, {a, b}); }
inline Value maximum(Value a, Value b) { return formula(ops::Maximum::info.name, {a, b}); }  // NaN wins
inline Value minimum(Value a, Value b) { return formula(ops::Minimum::info.name, {a, b}); }
inline Value atan2(Value a, Value b) { return formula(ops::Atan2::info.name, {a, b}); }
inline Value eq(Value a, Value b) { return formula(ops::Eq::info.name, {a, b}); }
inline Value ne(Value a, Value b) { return formula(ops::Ne::info.name, {a, b}); }
inline Value lt(Value a, Value b) { return formula(ops::Lt::info.name, {a, b}); }
inline Value le(Value a, Value b) { return formula(ops::Le::info.name, {a, b}); }
inline Value gt(Value a, Value b) { return formula(ops::Gt::info.name, {a, b}); }
inline Value ge(Value a, Value b) { return formula(ops::Ge::info.name, {a, b}); }
inline Value logical_and(Value a, Value b) { return formula(ops::LogicalAnd::info.name, {a, b}); }
inline Value logical_or(Value a, Value b) { return formula(ops::LogicalOr::info.name, {a, b}); }
inline Value where(Value condition, Value a, Value b) {
  return formula(ops::Where::info.name, {condition, a, b});
}

// Returns a 0-d constant in the graph of `like`, with the dtype that a scalar takes beside it.
Value scalar_like(Value like, Scalar value);

// Beside integers the scalar is f32, as the result is, so it need not fit their dtype.
Value div(Value a, Scalar b);
Value div(Scalar a, Value b);
Value pow(Value a, Scalar b);  // integers take no negative b
Value pow(Scalar a, Value b);
Value maximum(Value a, Scalar b);
Value minimum(Value a, Scalar b);
Value where(Value condition, Value a, Scalar b);
Value where(Value condition, Scalar a, Value b);
inline Value eq(Value a, Scalar b) { return eq(a, scalar_like(a, b)); }
inline Value ne(Value a, Scalar b) { return ne(a, scalar_like(a, b)); }
inline Value lt(Value a, Scalar b) { return lt(a, scalar_like(a, b)); }
inline Value le(Value a, Scalar b) { return le(a, scalar_like(a, b)); }
inline Value gt(Value a, Scalar b) { return gt(a, scalar_like(a, b)); }
inline Value ge(Value a, Scalar b) { return ge(a, scalar_like(a, b)); }

inline Value operator-(Value x) { return neg(x); }
inline Value operator+(Value a, Value b) { return add(a, b); }
inline Value operator-(Value a, Value b) { return sub(a, b); }
inline Value operator*(Value a, Value b) { return mul(a, b); }
inline Value operator/(Value a, Value b) { return div(a, b); }
inline Value operator%(Value a, Value b) { return remainder(a, b); }
inline Value operator+(Value a, Scalar b) { return add(a, scalar_like(a, b)); }
inline Value operator-(Value a, Scalar b) { return sub(a, scalar_like(a, b)); }
inline Value operator*(Value a, Scalar b) { return mul(a, scalar_like(a, b)); }
inline Value operator/(Value a, Scalar b) { return div(a, b); }
inline Value operator%(Value a, Scalar b) { return remainder(a, scalar_like(a, b)); }
inline Value operator+(Scalar a, Value b) { return add(scalar_like(b, a), b); }
inline Value operator-(Scalar a, Value b) { return sub(scalar_like(b, a), b); }
inline Value operator*(Scalar a, Value b) { return mul(scalar_like(b, a), b); }
inline Value operator/(Scalar a, Value b) { return div(a, b); }

// a += b is a = a + b: the handle `a` names the new value from then on; its old value stays in the graph. b: Value or Scalar.
template <class B>
Value& operator+=(Value& a, const B& b) {
  return a = a + b;
}
template <class B>
Value& operator-=(Value& a, const B& b) {
  return a = a - b;
}
template <class B>
Value& operator*=(Value& a, const B& b) {
  return a = a * b;
}
template <class B>
Value& operator/=(Value& a, const B& b) {
  return a = a / b;
}

// Operators of comparison and logic return a Mask, a Value of bools. It is known only when the graph runs, so it is no condition of
// C++: `if (a == b)` and std::find(values.begin(), values.end(), a) do not compile. a.is(b) compares the handles.
struct Mask : Value {
  explicit operator bool() const = delete;  // a.is(b) compares handles; where(mask, a, b) selects elements
};
inline Mask operator==(Value a, Value b) { return {eq(a, b)}; }
inline Mask operator!=(Value a, Value b) { return {ne(a, b)}; }
inline Mask operator<(Value a, Value b) { return {lt(a, b)}; }
inline Mask operator<=(Value a, Value b) { return {le(a, b)}; }
inline Mask operator>(Value a, Value b) { return {gt(a, b)}; }
inline Mask operator>=(Value a, Value b) { return {ge(a, b)}; }
inline Mask operator==(Value a, Scalar b) { return {eq(a, b)}; }
inline Mask operator!=(Value a, Scalar b) { return {ne(a, b)}; }
inline Mask operator<(Value a, Scalar b) { return {lt(a, b)}; }
inline Mask operator<=(Value a, Scalar b) { return {le(a, b)}; }
inline Mask operator>(Value a, Scalar b) { return {gt(a, b)}; }
inline Mask operator>=(Value a, Scalar b) { return {ge(a, b)}; }
inline Mask operator==(Scalar a, Value b) { return {eq(b, a)}; }
inline Mask operator!=(Scalar a, Value b) { return {ne(b, a)}; }
inline Mask operator<(Scalar a, Value b) { return {gt(b, a)}; }
inline Mask operator<=(Scalar a, Value b) { return {ge(b, a)}; }
inline Mask operator>(Scalar a, Value b) { return {lt(b, a)}; }
inline Mask operator>=(Scalar a, Value b) { return {le(b, a)}; }
// Operands are bools; throws Error for others, because torch combines the bits of integers, for which there is no op.
Mask operator&(Value a, Value b);
Mask operator|(Value a, Value b);
Mask operator~(Value a);

}  // namespace genesis
