// Settings of a model as fields of a struct with `static void fields(auto& self, auto&& visit)`, which names each once: reading
// them from typed JSON or from the texts of a command line, and writing them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "schema/core/attributes.h"
#include "schema/core/dtype.h"

namespace genesis::models {

// These read one setting. A text may stand for a value of any kind, as on a command line: "3", "true", "bf16"; lists of a text
// have commas between their items, or are JSON. Throws Error that names the setting for a value of another kind.
void read_field(const std::string& name, const nlohmann::json& value, int64_t& field);
void read_field(const std::string& name, const nlohmann::json& value, double& field);
void read_field(const std::string& name, const nlohmann::json& value, bool& field);
void read_field(const std::string& name, const nlohmann::json& value, DType& field);
void read_field(const std::string& name, const nlohmann::json& value, std::vector<std::string>& field);
void read_field(const std::string& name, const nlohmann::json& value, std::vector<int64_t>& field);
void read_field(const std::string& name, const nlohmann::json& value, std::vector<double>& field);

// Returns the index of a text among the names of an enumeration.
size_t read_name(const std::string& name, const nlohmann::json& value, const std::vector<std::string>& names);

template <class E>
requires std::is_enum_v<E>
void read_field(const std::string& name, const nlohmann::json& value, E& field) {
  const auto& names = EnumNames<E>::names;
  field = static_cast<E>(read_name(name, value, {std::begin(names), std::end(names)}));
}

template <class T>
nlohmann::json field_value(const T& field) {
  if constexpr (std::is_same_v<T, DType>)
    return std::string(name_of(field));
  else if constexpr (std::is_enum_v<T>)
    return std::string(EnumNames<T>::names[static_cast<size_t>(field)]);
  else
    return field;
}

// Throws Error for the first of `settings` that is not among the names.
void check_names(const std::string& model, const nlohmann::json& settings,
                 const std::vector<std::string>& names);

// Sets the fields that the object `settings` names. Throws Error for an unknown name, listing the known ones.
template <class Config>
void read_fields(const std::string& model, const nlohmann::json& settings, Config& config) {
  std::vector<std::string> names;
  Config::fields(config, [&](const char* name, auto& field) {
    names.emplace_back(name);
    if (const auto at = settings.find(name); at != settings.end()) read_field(name, *at, field);
  });
  check_names(model, settings, names);
}

// Returns all settings, in the order of fields().
template <class Config>
nlohmann::ordered_json fields_json(const Config& config) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  Config::fields(config, [&](const char* name, const auto& field) { json[name] = field_value(field); });
  return json;
}

}  // namespace genesis::models
