#include "models/config_fields.h"

#include <fmt/ranges.h>

#include <sstream>

#include "schema/core/parse_number.h"
#include "schema/core/type_limits.h"
#include "schema/file/json_text.h"
#include "schema/graph/near_names.h"

namespace genesis::models {

using nlohmann::json;

namespace {

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', true, json::error_handler_t::replace);
}

[[noreturn]] void wrong_value(const std::string& name, const json& value, const char* expected) {
  fail("setting {}={}: expected {}", name, text_of(value), expected);
}

// Returns the items of a list: those of JSON, or of a text with commas between them.
std::vector<json> items_of(const std::string& name, const json& value, const char* expected) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const json list = text.starts_with("[") ? try_parse_json_text(text) : value;
  if (list.is_array()) return list.get<std::vector<json>>();
  if (!list.is_string()) wrong_value(name, value, expected);
  std::vector<json> items;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) items.emplace_back(part);
  return items;
}

}  // namespace

void read_field(const std::string& name, const json& value, int64_t& field) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  const auto parsed = value.is_string() ? parse_number<int64_t>(value.get<std::string>()) : std::nullopt;
  if (parsed)
    field = *parsed;
  else if (value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > kMax))
    field = value.get<int64_t>();
  else
    wrong_value(name, value, "an integer of 64 bits");
}

void read_field(const std::string& name, const json& value, double& field) {
  const auto parsed = value.is_string() ? parse_number<double>(value.get<std::string>()) : std::nullopt;
  if (!parsed && !value.is_number()) wrong_value(name, value, "a number");
  const double number = parsed ? *parsed : value.get<double>();
  if (!fits_f32(number)) wrong_value(name, value, "a number that f32 can hold");
  field = number;
}

void read_field(const std::string& name, const json& value, bool& field) {
  if (value != true && value != false && value != "true" && value != "false")
    wrong_value(name, value, "true or false");
  field = value == true || value == "true";
}

void read_field(const std::string& name, const json& value, DType& field) {
  const auto dtype = value.is_string() ? parse_dtype(value.get<std::string>()) : std::nullopt;
  if (!dtype || !is_float(*dtype)) wrong_value(name, value, "f32, f64, f16 or bf16");
  field = *dtype;
}

void read_field(const std::string& name, const json& value, std::vector<std::string>& field) {
  constexpr const char* kExpected = "names with commas between them";
  field.clear();
  for (const json& item : items_of(name, value, kExpected)) {
    if (!item.is_string()) wrong_value(name, value, kExpected);
    field.push_back(item);
  }
}

void read_field(const std::string& name, const json& value, std::vector<int64_t>& field) {
  field.clear();
  for (const json& item : items_of(name, value, "integers with commas between them"))
    read_field(name, item, field.emplace_back());
}

void read_field(const std::string& name, const json& value, std::vector<double>& field) {
  field.clear();
  for (const json& item : items_of(name, value, "numbers with commas between them"))
    read_field(name, item, field.emplace_back());
}

size_t read_name(const std::string& name, const json& value, const std::vector<std::string>& names) {
  const auto found = std::ranges::find(names, text_of(value));
  if (found == names.end())
    fail("setting {} is '{}', expected one of: {}", name, text_of(value), fmt::join(names, ", "));
  return static_cast<size_t>(found - names.begin());
}

void check_names(const std::string& model, const json& settings, const std::vector<std::string>& names) {
  for (const auto& [name, value] : settings.items())
    if (std::ranges::find(names, name) == names.end())
      fail("model '{}' has no setting '{}'{}; it has: {}", model, name, did_you_mean(name, names),
           fmt::join(names, ", "));
}

}  // namespace genesis::models
