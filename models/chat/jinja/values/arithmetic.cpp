// Implements + - * / // % ** and signs.
#include <algorithm>
#include <cmath>

#include "models/chat/jinja/values/operators.h"
#include "models/chat/jinja/values/percent_format.h"
#include "models/chat/jinja/values/python_text.h"

namespace genesis::jinja {
namespace {

const char* sign_of(BinaryOp op) {
  static constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSigns[static_cast<size_t>(op)];
}

int64_t checked_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) fail("the result of ** is no int of 64 bits");
    if (result == 0 || (base == 1)) return result;
    if (base == -1) return exponent % 2 == 1 ? -1 : 1;
  }
  return result;
}

int64_t floor_divided(int64_t a, int64_t b) {
  if (b == -1) {
    int64_t result;
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) fail("the result of // is no int of 64 bits");
    return result;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t floor_modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value whole(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOp::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOp::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOp::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOp::kDivide:
      return static_cast<double>(a) / static_cast<double>(b);
    case BinaryOp::kFloorDivide:
      return floor_divided(a, b);
    case BinaryOp::kModulo:
      return floor_modulo(a, b);
    case BinaryOp::kPower:
      if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
      return checked_power(a, b);
  }
  if (overflow) fail("the result of {} is no int of 64 bits", sign_of(op));
  return result;
}

double modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) return rest + b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

double floor_divided(double a, double b) {
  const double quotient = (a - modulo(a, b)) / b;
  return quotient == 0 ? std::copysign(0.0, a / b) : std::round(quotient);
}

double broken(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSubtract:
      return a - b;
    case BinaryOp::kMultiply:
      return a * b;
    case BinaryOp::kDivide:
      return a / b;
    case BinaryOp::kFloorDivide:
      return floor_divided(a, b);
    case BinaryOp::kModulo:
      return modulo(a, b);
    case BinaryOp::kPower:
      break;
  }
  return std::pow(a, b);
}

Value arithmetic(BinaryOp op, const Value& a, const Value& b) {
  const auto left = whole_number(a), right = whole_number(b);
  const bool divides = op == BinaryOp::kDivide || op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo;
  if (divides && number_in(b, sign_of(op)) == 0) fail("{} by zero", sign_of(op));
  if (op == BinaryOp::kPower && number_in(a, "**") == 0 && number_in(b, "**") < 0)
    fail("0 to a negative power");
  if (left && right) return whole(op, *left, *right);
  const double result = broken(op, number_in(a, sign_of(op)), number_in(b, sign_of(op)));
  if (op == BinaryOp::kPower && std::isnan(result)) fail("a root of a negative number");
  return result;
}

bool can_be_added(const Value& a, const Value& b) {
  return are_alike(a, b) && a.sequence()->kind != SequenceKind::kRange;
}

Value repeated(Budget& budget, const Value& what, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const size_t size = what.text() ? what.text()->size() : what.sequence()->items.size();
  if (times > 0 && size > 0 && static_cast<size_t>(times) > (size_t{1} << 40) / size)
    fail("* makes a value of more than {} bytes", size_t{1} << 40);
  if (const std::string* text = what.text()) {
    budget.make(size * static_cast<size_t>(times));
    std::string result;
    result.reserve(size * static_cast<size_t>(times));
    for (int64_t i = 0; i < times && size > 0; ++i) result += *text;
    return what.is_markup() ? Value::markup(std::move(result)) : Value(std::move(result));
  }
  budget.make_items(size * static_cast<size_t>(times));
  std::vector<Value> items;
  const std::vector<Value>& each = what.sequence()->items;
  for (int64_t i = 0; i < times && size > 0; ++i) items.insert(items.end(), each.begin(), each.end());
  return Value::sequence(std::move(items), what.sequence()->kind);
}

std::string escaped(const Value& text) {
  return text.is_markup() ? *text.text() : escaped_html(*text.text());
}

// Returns a + b for texts and for lists; empty for other operands.
std::optional<Value> joined(Budget& budget, const Value& a, const Value& b) {
  if (a.text() && b.text()) {
    budget.make(a.text()->size() + b.text()->size());
    if (!a.is_markup() && !b.is_markup()) return *a.text() + *b.text();
    return Value::markup(escaped(a) + escaped(b));
  }
  if (!can_be_added(a, b)) return {};
  budget.make_items(a.sequence()->items.size() + b.sequence()->items.size());
  std::vector<Value> items = a.sequence()->items;
  items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
  return Value::sequence(std::move(items), a.sequence()->kind);
}

}  // namespace

Value binary(Budget& budget, BinaryOp op, const Value& a, const Value& b) {
  if (op == BinaryOp::kAdd)
    if (auto value = joined(budget, a, b)) return *value;
  if (op == BinaryOp::kMultiply) {
    if ((a.text() || can_be_added(a, a)) && whole_number(b)) return repeated(budget, a, *whole_number(b));
    if ((b.text() || can_be_added(b, b)) && whole_number(a)) return repeated(budget, b, *whole_number(a));
  }
  if (op == BinaryOp::kModulo && a.text()) return percent_format(budget, a, b);
  if (!a.is_number() || !b.is_number()) fail_operands(sign_of(op), a, b);
  return arithmetic(op, a, b);
}

Value negative(const Value& value) {
  if (value.real()) return -*value.real();
  return whole(BinaryOp::kSubtract, 0, integer_in(value, "-"));
}

Value positive(const Value& value) {
  if (value.real()) return value;
  return integer_in(value, "+");
}

}  // namespace genesis::jinja
