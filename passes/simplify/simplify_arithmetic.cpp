// Simplifies arithmetic, comparisons, selection and casts. Floating-point algebra that holds only approximately is left out:
// x + 0.0 turns -0.0 into 0.0, x * 0 loses NaN, (x * a) * b rounds twice.
#include <cmath>

#include "passes/core/match.h"
#include "passes/simplify/simplify.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/random.h"

namespace genesis::passes {
namespace {

std::optional<double> number(Value x) { return uniform_value(*x.graph, x.id); }
bool is_number(Value x, double wanted) { return number(x) == wanted; }

// x * 1, 1 * x -> x
Value times_one(const Candidate& c) {
  if (!is<ops::Mul>(c.op)) return {};
  if (is_number(c.inputs[1], 1)) return c.inputs[0];
  return is_number(c.inputs[0], 1) ? c.inputs[1] : Value();
}

// x / 1 -> x; pow(x, 1) -> x
Value over_one(const Candidate& c) {
  return is<ops::Div, ops::Pow>(c.op) && is_number(c.inputs[1], 1) ? c.inputs[0] : Value();
}

bool adds_nothing(Value zero) {
  const auto value = number(zero);
  return value == 0 && (!is_float(zero.dtype()) || std::signbit(*value));
}

// x + 0, 0 + x -> x for integers, and for -0.0 in floating point (0.0 would change the sign of -0.0)
Value plus_zero(const Candidate& c) {
  if (!is<ops::Add>(c.op) || c.type.dtype == DType::boolean) return {};
  if (adds_nothing(c.inputs[1])) return c.inputs[0];
  return adds_nothing(c.inputs[0]) ? c.inputs[1] : Value();
}

// x - 0.0 -> x
Value minus_zero(const Candidate& c) {
  if (!is<ops::Sub>(c.op)) return {};
  const auto value = number(c.inputs[1]);
  return value == 0 && !std::signbit(*value) ? c.inputs[0] : Value();
}

// x * 0 -> 0 for integers only: a floating-point x may be NaN or infinite
Value times_zero(const Candidate& c) {
  if (!is<ops::Mul>(c.op) || !is_integer(c.type.dtype)) return {};
  if (is_number(c.inputs[1], 0)) return c.inputs[1];
  return is_number(c.inputs[0], 0) ? c.inputs[0] : Value();
}

// -(-x) -> x; not(not x) -> x
Value twice_undone(const Candidate& c) {
  return is<ops::Neg, ops::LogicalNot>(c.op) ? under_its_like(c) : Value();
}

// f(f(x)) -> f(x)
Value idempotent(const Candidate& c) {
  const bool may_be = is<ops::Abs, ops::Relu, ops::Floor, ops::Ceil, ops::Round, ops::Sign>(c.op);
  return may_be && under_its_like(c) ? c.inputs[0] : Value();
}

// abs(-x) -> abs(x); square(-x), square(abs(x)) -> square(x); cos(-x) -> cos(x)
Value even_of_negated(const Candidate& c) {
  const Value x = is<ops::Abs, ops::Square, ops::Cos>(c.op) ? under<ops::Neg>(c.inputs[0]) : Value();
  const Value y = is<ops::Square>(c.op) ? under<ops::Abs>(c.inputs[0]) : Value();
  if (!x && !y) return {};
  return c.graph.add_node(c.op, c.attributes, {x ? x : y})[0];
}

// x + (-y) -> x - y; (-x) + y -> y - x; x - (-y) -> x + y
Value sum_with_negated(const Candidate& c) {
  if (is<ops::Sub>(c.op))
    if (const Value y = under<ops::Neg>(c.inputs[1])) return add(c.inputs[0], y);
  if (!is<ops::Add>(c.op)) return {};
  if (const Value y = under<ops::Neg>(c.inputs[1])) return sub(c.inputs[0], y);
  if (const Value x = under<ops::Neg>(c.inputs[0])) return sub(c.inputs[1], x);
  return {};
}

// (-x) * (-y) -> x * y; (-x) / (-y) -> x / y
Value product_of_negated(const Candidate& c) {
  if (!is<ops::Mul, ops::Div>(c.op)) return {};
  const Value x = under<ops::Neg>(c.inputs[0]), y = under<ops::Neg>(c.inputs[1]);
  return x && y ? c.graph.add_node(c.op, c.attributes, {x, y})[0] : Value();
}

// x * -1 -> -x
Value times_minus_one(const Candidate& c) {
  if (!is<ops::Mul>(c.op)) return {};
  if (is_number(c.inputs[1], -1)) return neg(c.inputs[0]);
  return is_number(c.inputs[0], -1) ? neg(c.inputs[1]) : Value();
}

// pow(x, 2) -> square(x), as PyTorch's pow does
Value power_of_two(const Candidate& c) {
  return is<ops::Pow>(c.op) && is_float(c.type.dtype) && is_number(c.inputs[1], 2) ? square(c.inputs[0])
                                                                                   : Value();
}

// x / 2^k -> x * 2^-k: 2^-k is exact, so both round the same real number
Value over_power_of_two(const Candidate& c) {
  if (!is<ops::Div>(c.op) || !is_float(c.inputs[0].dtype())) return {};
  const auto divisor = number(c.inputs[1]);
  int exponent = 0;
  if (!divisor || std::abs(std::frexp(*divisor, &exponent)) != 0.5 || std::abs(exponent) > 12) return {};
  return mul(c.inputs[0], scalar_like(c.inputs[0], 1.0 / *divisor));
}

// maximum(x, x), minimum(x, x), where(c, x, x) -> x
Value same_operands(const Candidate& c) {
  if (is<ops::Maximum, ops::Minimum>(c.op) && c.inputs[0].is(c.inputs[1])) return c.inputs[0];
  return is<ops::Where>(c.op) && c.inputs[1].is(c.inputs[2]) ? c.inputs[1] : Value();
}

// where(true, a, b) -> a; where(false, a, b) -> b
Value known_condition(const Candidate& c) {
  if (!is<ops::Where>(c.op)) return {};
  const auto condition = number(c.inputs[0]);
  return condition ? c.inputs[*condition != 0 ? 1 : 2] : Value();
}

// clamp(x, -inf, inf) -> x
Value open_clamp(const Candidate& c) {
  if (!is<ops::Clamp>(c.op)) return {};
  const auto clamp = from_attributes<ops::Clamp>(c.attributes);
  return std::isinf(clamp.min) && clamp.min < 0 && std::isinf(clamp.max) && clamp.max > 0 ? c.inputs[0]
                                                                                          : Value();
}

// dropout(x, 0) -> x
Value needless_dropout(const Candidate& c) {
  return is<ops::Dropout>(c.op) && from_attributes<ops::Dropout>(c.attributes).p == 0 ? c.inputs[1] : Value();
}

// Returns whether every value of `narrow` can be represented in `wide`.
bool holds(DType wide, DType narrow) {
  if (wide == narrow || narrow == DType::boolean) return true;
  if (is_float(wide) && is_float(narrow))
    return wide == DType::f64 || (wide == DType::f32 && is_low_precision(narrow));
  if (is_float(wide)) return size_of(narrow) * 2 <= size_of(wide) && !is_low_precision(wide);
  if (is_float(narrow) || wide == DType::boolean) return false;
  if (wide == DType::u8) return false;
  return size_of(wide) > size_of(narrow);
}

// cast(x, x's dtype) -> x
Value needless_cast(const Candidate& c) { return is<ops::Cast>(c.op) ? c.inputs[0] : Value(); }

// cast(cast(x, B), C) -> cast(x, C) if B can represent every value of x and the direct cast rounds like the two casts do: among
// floating-point types, among integers, from booleans, and back to x's own dtype
Value cast_of_cast(const Candidate& c) {
  const Value x = is<ops::Cast>(c.op) ? under_its_like(c) : Value();
  if (!x || !holds(c.inputs[0].dtype(), x.dtype())) return {};
  const DType from = x.dtype(), by = c.inputs[0].dtype(), to = c.type.dtype;
  const bool reals = is_float(from) && is_float(by) && is_float(to),
             integers = is_integer(from) && is_integer(by);
  return reals || integers || from == DType::boolean || from == to ? cast(x, to) : Value();
}

constexpr SimplifyRule kRules[] = {
    {"times_one", times_one},
    {"over_one", over_one},
    {"plus_zero", plus_zero},
    {"minus_zero", minus_zero},
    {"times_zero", times_zero},
    {"twice_undone", twice_undone},
    {"idempotent", idempotent},
    {"even_of_negated", even_of_negated},
    {"sum_with_negated", sum_with_negated},
    {"product_of_negated", product_of_negated},
    {"times_minus_one", times_minus_one},
    {"power_of_two", power_of_two},
    {"over_power_of_two", over_power_of_two},
    {"same_operands", same_operands},
    {"known_condition", known_condition},
    {"open_clamp", open_clamp},
    {"needless_dropout", needless_dropout},
    {"needless_cast", needless_cast},
    {"cast_of_cast", cast_of_cast},
};

}  // namespace

std::span<const SimplifyRule> arithmetic_rules() { return kRules; }

}  // namespace genesis::passes
