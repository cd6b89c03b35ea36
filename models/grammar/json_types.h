// The types of JSON values, as schemas name them.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace genesis::grammar {

// Returns true for a number without a fraction, of up to 15 digits, whichever way it is written: 5, 5.0 and 50e-1 are the same.
inline bool is_whole(const nlohmann::ordered_json& value) {
  if (!value.is_number()) return false;
  const auto number = value.get<double>();
  return number == std::floor(number) && std::abs(number) < 1e15;
}

inline bool has_type(const nlohmann::ordered_json& value, const std::string& type) {
  return type == "object"    ? value.is_object()
         : type == "array"   ? value.is_array()
         : type == "string"  ? value.is_string()
         : type == "integer" ? value.is_number_integer() || is_whole(value)
         : type == "number"  ? value.is_number()
         : type == "boolean" ? value.is_boolean()
                             : type == "null" && value.is_null();
}

// Returns true if the schema names no type, or that of the value.
inline bool may_be(const nlohmann::ordered_json& value, const nlohmann::ordered_json& schema) {
  const nlohmann::ordered_json types = schema.value("type", nlohmann::ordered_json());
  if (types.is_null()) return true;
  return std::ranges::any_of(types.is_array() ? types : nlohmann::ordered_json::array({types}),
                             [&](const nlohmann::ordered_json& type) {
                               return type.is_string() && has_type(value, type.get<std::string>());
                             });
}

// Returns the keys that restrict values of the types of a schema, which has "type", and that key itself. A key of another type is most
// likely a mistake.
inline std::set<std::string> keys_of_types(const nlohmann::ordered_json& schema) {
  static const std::map<std::string, std::set<std::string>> keys = {
      {"object", {"properties", "required", "additionalProperties"}},
      {"array", {"items", "prefixItems", "minItems", "maxItems"}},
      {"string", {"minLength", "maxLength", "pattern", "format"}},
      {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
      {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}}};
  std::set<std::string> known = {"type"};
  const nlohmann::ordered_json& types = schema["type"];
  for (const auto& type : types.is_array() ? types : nlohmann::ordered_json::array({types}))
    if (const auto found = keys.find(type.is_string() ? type.get<std::string>() : ""); found != keys.end())
      known.insert(found->second.begin(), found->second.end());
  return known;
}

}  // namespace genesis::grammar
