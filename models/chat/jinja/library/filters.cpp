// The table of filters, and the filters that take any value.
#include "models/chat/jinja/library/library.h"

#include <algorithm>
#include <cmath>

#include "models/chat/jinja/values/number_text.h"
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

Value length_of_value(Rendering& i, const Value& input, Arguments&) {
  if (input.text()) i.budget().read(input.text()->size());
  return length(input);
}

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

Value as_integer(Rendering& i, const Value& input, Arguments& a) {
  Value otherwise = a.take("default", int64_t{0});
  const int64_t base = a.take_integer("base", 10);
  if (base != 0 && (base < 2 || base > 36)) fail("the filter int takes the base 0 or 2 to 36, got {}", base);
  if (input.real()) return std::isnan(*input.real()) ? otherwise : Value(whole_part(*input.real()));
  if (input.is_number()) return integer_in(input, "int");
  if (!defined(input).text()) return otherwise;
  i.budget().characters(input.text()->size());
  if (const auto whole = integer_in_text(*input.text(), static_cast<int>(base))) return *whole;
  const auto real = float_in(*input.text());
  return real && std::isfinite(*real) ? Value(whole_part(*real)) : otherwise;
}

Value as_float(Rendering& i, const Value& input, Arguments& a) {
  Value otherwise = a.take("default", 0.0);
  if (input.is_number()) return number_in(input, "float");
  if (!defined(input).text()) return otherwise;
  i.budget().characters(input.text()->size());
  const auto value = float_in(*input.text());
  return value ? Value(*value) : otherwise;
}

Value absolute(Rendering&, const Value& input, Arguments&) {
  if (input.real()) return std::fabs(*input.real());
  const int64_t value = integer_in(input, "abs");
  return value < 0 ? negative(value) : Value(value);
}

// Rounds a float as Python's round(): on its exact decimal value, half to even.
double rounded_to(double value, int64_t digits) {
  if (!std::isfinite(value)) fail("round takes finite numbers, got {}", float_text(value));
  if (digits >= 0) return float_in(fmt::format("{:.{}f}", value, static_cast<int>(digits))).value_or(value);
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / scale) * scale;
}

int64_t rounded_to(int64_t value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return 0;
  int64_t scale = 1;
  for (; digits < 0; ++digits) scale *= 10;
  const int64_t rest = (value % scale + scale) % scale, below = value - rest;
  const bool up = rest * 2 > scale || (rest * 2 == scale && (below / scale) % 2 != 0);
  return below + (up ? scale : 0);
}

Value rounded(Rendering&, const Value& input, Arguments& a) {
  const int64_t digits = a.take_integer("precision", 0);
  const std::string method = text_in(a.take("method", "common"), "round");
  if (digits < -300 || digits > 300) fail("round takes -300 to 300 digits, got {}", digits);
  const double scale = std::pow(10.0, static_cast<double>(digits)), value = number_in(input, "round");
  if (method == "ceil") return std::ceil(value * scale) / scale;
  if (method == "floor") return std::floor(value * scale) / scale;
  if (method != "common") fail("round takes the methods common, ceil and floor, got '{}'", method);
  return input.real() ? Value(rounded_to(value, digits))
                      : Value(rounded_to(integer_in(input, "round"), digits));
}

Value entries(Rendering& i, const Value& input, Arguments&) {
  if (input.is_undefined()) return Value::generator({});
  if (!input.dict()) fail_type("items", "a mapping", input);
  i.budget().make_entries(input.dict()->size());
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.dict()->entries()) pairs.push_back(Value::tuple({key, value}));
  return Value::generator(std::move(pairs));
}

Value attribute_of(Rendering& i, const Value& input, Arguments& a) {
  const std::string name = a.need_text("name");
  if (!input.dict()) return i.attribute(input, name);
  return find_method(i, input, name).value_or(Value::undefined("the attribute '" + name + "' of a dict"));
}

const Filters& value_filters() {
  static const Filters kFilters = {{"abs", absolute},   {"attr", attribute_of}, {"count", length_of_value},
                                   {"d", otherwise},    {"default", otherwise}, {"float", as_float},
                                   {"int", as_integer}, {"items", entries},     {"length", length_of_value},
                                   {"round", rounded},  {"safe", as_markup},    {"string", as_text},
                                   {"tojson", as_json}};
  return kFilters;
}

}  // namespace

Filter find_filter(std::string_view name) {
  for (const auto* table :
       {&value_filters(), &item_filters(), &group_filters(), &text_filters(), &layout_filters()})
    if (const auto found = table->find(name); found != table->end()) return found->second;
  return nullptr;
}

}  // namespace genesis::jinja
