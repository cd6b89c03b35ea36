#include "models/formats/settings_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "schema/core/type_limits.h"

namespace genesis::models {

using nlohmann::json;

namespace {

constexpr int64_t kMaxSize = int64_t{1} << 40;
constexpr size_t kMaxShown = 60;

}  // namespace

SettingsReader::SettingsReader(const json& entries, std::string prefix, char quote)
    : ObjectReader(entries, std::move(prefix)), quote_(quote) {}

int64_t SettingsReader::integer(const std::string& name, int64_t otherwise) {
  const json& value = get(name);
  return value.is_number_integer() ? value.get<int64_t>() : otherwise;
}

void SettingsReader::copy_size(const std::string& name, const std::string& setting,
                               const json& where_absent) {
  const json& value = given(name, where_absent);
  if (!value.is_number_integer() || value < 1 || value > kMaxSize) return refuse(name, "a size");
  set(setting, value);
}

void SettingsReader::copy_number(const std::string& name, const std::string& setting,
                                 const json& where_absent) {
  copy_number_of(has(name) ? get(name) : where_absent, name, setting);
}

void SettingsReader::copy_number_of(const json& value, const std::string& name, const std::string& setting) {
  if (!value.is_number() || value.get<double>() < 0) return refuse(name, "a number that is not negative");
  if (!fits_f32(value.get<double>())) return refuse(name, "a number that f32 can hold");
  set(setting, value.get<double>());
}

void SettingsReader::copy_flag(const std::string& name, const std::string& setting, bool where_absent) {
  if (has(name) && !get(name).is_boolean()) return refuse(name, "true or false");
  set(setting, has(name) ? get(name).get<bool>() : where_absent);
}

void SettingsReader::must_be_one_of(const std::string& name, const std::vector<json>& values) {
  if (has(name) && std::ranges::find(values, get(name)) == values.end())
    add_problem(fmt::format("{}: {}", called(name), shown(get(name))));
}

int64_t SettingsReader::size(const std::string& setting) const {
  const auto at = settings_.find(setting);
  return at != settings_.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
}

void SettingsReader::refuse(const std::string& name, const std::string& expected) {
  add_problem(fmt::format("{} is {}, expected {}", called(name), has(name) ? shown(get(name)) : "not there",
                          expected));
}

void SettingsReader::refuse_unknown() {
  for (const std::string& name : unknown())
    add_problem(
        fmt::format("{} is {}, which is not known: remove it if it does not change what the model computes",
                    called(name), shown(get(name))));
}

std::string SettingsReader::shown(const json& value) const {
  if (value.is_string() && quote_ != '"')
    return quote_ + value.get<std::string>().substr(0, kMaxShown) + quote_;
  return shown_json(value);
}

}  // namespace genesis::models
