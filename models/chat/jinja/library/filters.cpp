// The table of filters, and those that take any value.
#include "models/chat/jinja/library/library.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

Value as_text(Rendering& i, const Value& input, Arguments&) {
  return input.is_markup() ? input : Value(to_text(i.budget(), input));
}

Value as_markup(Rendering& i, const Value& input, Arguments&) {
  return Value::markup(to_text(i.budget(), input));
}

Value otherwise(Rendering&, const Value& input, Arguments& a) {
  Value value = a.take("default_value", "");
  const bool also_false = a.take_flag("boolean", false);
  return input.is_undefined() || (also_false && !is_true(input)) ? value : input;
}

Value length_of_value(Rendering&, const Value& input, Arguments&) { return length(input); }

Value as_json(Rendering& i, const Value& input, Arguments& a) {
  JsonStyle style;
  style.ensure_ascii = a.take_flag("ensure_ascii", false);
  if (const Value indent = a.take("indent", None{}); indent.text()) {
    style.indent = *indent.text();
  } else if (!indent.is_none()) {
    const int64_t width = std::clamp<int64_t>(integer_in(indent, "tojson"), 0, 64);
    style.indent = std::string(static_cast<size_t>(width), ' ');
  }
  if (style.indent) style.item_separator = ",";
  if (const Value separators = a.take("separators", None{}); !separators.is_none()) {
    const std::vector<Value> two = items_of(i.budget(), separators);
    if (two.size() != 2) fail("the separators of tojson are two texts");
    style.item_separator = text_in(two[0], "tojson");
    style.key_separator = text_in(two[1], "tojson");
  }
  style.sort_keys = a.take_flag("sort_keys", false);
  return to_json(i.budget(), input, style);
}

// Of a text, as int() and float() of Python read it but for the spellings of infinity; `otherwise` where it is no number.
template <class T>
Value number_in_text(const std::string& text, const Value& otherwise) {
  std::string digits(strip(text, Side::kBoth));
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.erase(0, 1);
  T value{};
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = end.ec == std::errc() && end.ptr == digits.data() + digits.size() && !digits.empty();
  return whole ? Value(value) : otherwise;
}

Value truncated(double value, const Value& otherwise) {
  return std::fabs(value) < 9e18 ? Value(static_cast<int64_t>(value)) : otherwise;
}

Value as_integer(Rendering&, const Value& input, Arguments& a) {
  Value otherwise = a.take("default", int64_t{0});
  if (a.take_integer("base", 10) != 10) fail("the filter int takes numbers to the base 10 only");
  if (input.real()) return truncated(*input.real(), otherwise);
  if (input.is_number()) return integer_in(input, "int");
  if (!input.text()) return otherwise;
  Value whole = number_in_text<int64_t>(*input.text(), None{});
  if (whole.integer()) return whole;
  const Value real = number_in_text<double>(*input.text(), None{});
  return real.real() ? truncated(*real.real(), otherwise) : otherwise;
}

Value as_float(Rendering&, const Value& input, Arguments& a) {
  Value otherwise = a.take("default", 0.0);
  if (input.is_number()) return number_in(input, "float");
  return input.text() ? number_in_text<double>(*input.text(), otherwise) : otherwise;
}

Value absolute(Rendering&, const Value& input, Arguments&) {
  if (input.real()) return std::fabs(*input.real());
  const int64_t value = integer_in(input, "abs");
  return value < 0 ? negative(value) : Value(value);
}

// Half to even, as Python rounds.
Value rounded(Rendering&, const Value& input, Arguments& a) {
  const int64_t digits = a.take_integer("precision", 0);
  const std::string method = text_in(a.take("method", "common"), "round");
  if (digits < 0 || digits > 15) fail("round takes 0 to 15 digits, got {}", digits);
  const double scale = std::pow(10.0, static_cast<double>(digits)), value = number_in(input, "round");
  if (method == "ceil") return std::ceil(value * scale) / scale;
  if (method == "floor") return std::floor(value * scale) / scale;
  if (method != "common") fail("round takes the methods common, ceil and floor, got '{}'", method);
  if (!input.real()) return integer_in(input, "round");
  double result = 0;
  const std::string text = fmt::format("{:.{}f}", value, static_cast<int>(digits));
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

Value entries(Rendering& i, const Value& input, Arguments&) {
  if (input.is_undefined()) return Value::generator({});
  if (!input.dict()) fail_type("items", "a mapping", input);
  i.budget().make(input.dict()->entries.size() * 4 * sizeof(Value));
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.dict()->entries) pairs.push_back(Value::tuple({key, value}));
  return Value::generator(std::move(pairs));
}

Value attribute_of(Rendering& i, const Value& input, Arguments& a) {
  return i.attribute(input, a.need_text("name"));
}

const std::map<std::string, Filter, std::less<>>& value_filters() {
  static const std::map<std::string, Filter, std::less<>> kFilters = {
      {"abs", absolute},           {"attr", attribute_of}, {"count", length_of_value}, {"d", otherwise},
      {"default", otherwise},      {"float", as_float},    {"int", as_integer},        {"items", entries},
      {"length", length_of_value}, {"round", rounded},     {"safe", as_markup},        {"string", as_text},
      {"tojson", as_json}};
  return kFilters;
}

}  // namespace

Filter find_filter(std::string_view name) {
  for (const auto* table : {&value_filters(), &item_filters(), &text_filters()})
    if (const auto found = table->find(name); found != table->end()) return found->second;
  return nullptr;
}

}  // namespace genesis::jinja
