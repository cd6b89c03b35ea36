#include "tools/viz/data/inputs.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/data/sources.h"
#include "schema/core/error.h"

namespace genesis::viz {
namespace {

using Json = nlohmann::json;

constexpr const char* kMetrics = "`genesis-run train --metrics FILE` writes such lines";
constexpr const char* kProfile = "make a profile with `genesis-run profile FILE --json`";

// "an object without 'us'", "a list", "text": what stands where something else was expected.
std::string found(const Json& json) {
  if (json.is_array()) return "a list";
  if (json.is_null()) return "null";
  return json.is_string() ? "a text" : std::string("a") + (json.is_object() ? "n " : " ") + json.type_name();
}

const Json& field(const Json& object, const char* name, const std::string& where, const char* expected,
                  const char* advice) {
  if (!object.is_object()) fail("{}: expected {}, got {}: {}", where, expected, found(object), advice);
  const auto at = object.find(name);
  if (at == object.end())
    fail("{}: expected {}, got an object without '{}': {}", where, expected, name, advice);
  return *at;
}

// A number, or NaN where `may_be_null` and null stands there: JSON has no other way to say it.
double number(const Json& value, const char* name, const std::string& where, bool may_be_null,
              const char* advice) {
  if (may_be_null && value.is_null()) return std::nan("");
  if (!value.is_number())
    fail("{}: expected a number as '{}', got {}: {}", where, name, found(value), advice);
  return value.get<double>();
}

void add_row(const Json& row, const std::string& where, Curve& curve) {
  constexpr const char* kExpected = "a JSON object with numbers 'step' and 'loss'";
  const double step = number(field(row, "step", where, kExpected, kMetrics), "step", where, false, kMetrics);
  const double loss = number(field(row, "loss", where, kExpected, kMetrics), "loss", where, true, kMetrics);
  curve.steps.push_back(step);
  curve.values.push_back(loss);
}

Json parse_profile(const std::string& path) {
  const std::string text = data::read_file(path);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    fail("{}, line {}: not a profile, this is not JSON: {}", path, 1 + std::count(text.begin(), end, '\n'),
         kProfile);
  } catch (const Json::exception&) {  // a number beyond what a double holds
    fail("{}: not a profile, a number in it is too large: {}", path, kProfile);
  }
}

}  // namespace

Curve read_curve(const std::string& path) {
  Curve curve;
  std::istringstream in(data::read_file(path));
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json row = Json::parse(line, nullptr, false);
    if (row.is_discarded() && in.eof()) break;
    const std::string where = fmt::format("{}, line {}", path, number);
    if (row.is_discarded()) fail("{}: expected a JSON object, this line is not JSON: {}", where, kMetrics);
    add_row(row, where, curve);
  }
  if (curve.steps.empty()) fail("{} has no steps to draw: {}", path, kMetrics);
  return curve;
}

std::map<std::string, double> read_times(const std::string& path) {
  const Json json = parse_profile(path);
  const Json& rows = field(json, "rows", path + ": not a profile", "an object with a list 'rows'", kProfile);
  if (!rows.is_array())
    fail("{}: not a profile: expected a list as 'rows', got {}: {}", path, found(rows), kProfile);
  std::map<std::string, double> times;
  for (size_t i = 0; i < rows.size(); ++i) {
    constexpr const char* kExpected = "an object with 'name' and 'us'";
    const std::string where = fmt::format("{}, row {} of 'rows'", path, i + 1);
    const Json& name = field(rows[i], "name", where, kExpected, kProfile);
    if (!name.is_string()) fail("{}: expected a text as 'name', got {}: {}", where, found(name), kProfile);
    times[name.get<std::string>()] +=
        number(field(rows[i], "us", where, kExpected, kProfile), "us", where, false, kProfile);
  }
  return times;
}

}  // namespace genesis::viz
