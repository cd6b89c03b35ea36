#include "schema/file/object_reader.h"

#include "schema/core/error.h"
#include "schema/core/type_limits.h"

namespace genesis {

using nlohmann::json;

namespace {

constexpr size_t kMaxShown = 60;

bool is_integer_in(const json& value, int64_t least, int64_t most) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return false;
  const auto integer = value.get<int64_t>();
  return least <= integer && integer <= most;
}

std::string range(int64_t least, int64_t most) {
  return most == INT64_MAX ? fmt::format("from {} up", least) : fmt::format("from {} to {}", least, most);
}

}  // namespace

bool is_neutral_json(const json& value) {
  return value.is_null() || value == false || value == 0 || value == "" ||
         (value.is_structured() && value.empty());
}

std::string shown_json(const json& value) {
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > kMaxShown ? text.substr(0, kMaxShown) + "..." : text;
}

const json& ObjectReader::get(const std::string& name) {
  static const json none;
  known_.insert(name);
  const auto at = entries_.find(name);
  return at == entries_.end() ? none : *at;
}

json ObjectReader::given(const std::string& name, const json& where_absent) {
  const json& member = get(name);
  return entries_.contains(name) ? member : where_absent;
}

void ObjectReader::ignore(const std::vector<std::string>& names) {
  known_.insert(names.begin(), names.end());
}

std::optional<double> ObjectReader::number(const std::string& name) {
  const json& value = get(name);
  if (value.is_null()) return std::nullopt;
  if (value.is_number() && fits_f32(value.get<double>())) return value.get<double>();
  refuse(name, "a number that f32 can hold");
  return std::nullopt;
}

std::optional<int64_t> ObjectReader::integer_in(const std::string& name, int64_t least, int64_t most) {
  const json& value = get(name);
  if (value.is_null()) return std::nullopt;
  if (is_integer_in(value, least, most)) return value.get<int64_t>();
  refuse(name, "an integer " + range(least, most));
  return std::nullopt;
}

std::optional<bool> ObjectReader::flag(const std::string& name) {
  const json& value = get(name);
  if (value.is_null()) return std::nullopt;
  if (value.is_boolean()) return value.get<bool>();
  refuse(name, "true or false");
  return std::nullopt;
}

std::optional<std::string> ObjectReader::text(const std::string& name) {
  const json& value = get(name);
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.get<std::string>();
  refuse(name, "a text");
  return std::nullopt;
}

std::optional<std::vector<int64_t>> ObjectReader::integers(const std::string& name, int64_t least,
                                                           int64_t most) {
  const json& value = get(name);
  if (value.is_null()) return std::nullopt;
  std::vector<int64_t> integers;
  for (const json& item : value.is_array() ? value : json::array({json()})) {
    if (!is_integer_in(item, least, most)) {
      refuse(name, "a list of integers " + range(least, most));
      return std::nullopt;
    }
    integers.push_back(item.get<int64_t>());
  }
  return integers;
}

const json* ObjectReader::object(const std::string& name) {
  const json& value = get(name);
  if (value.is_null()) return nullptr;
  if (value.is_object()) return &value;
  refuse(name, "an object");
  return nullptr;
}

void ObjectReader::refuse(const std::string& name, const std::string& expected) {
  fail("'{}' is {}, expected {}", called(name), has(name) ? shown_json(get(name)) : "not there", expected);
}

std::string ObjectReader::called(const std::string& name) const {
  return prefix_ + name.substr(0, kMaxShown);
}

std::vector<std::string> ObjectReader::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : entries_.items())
    if (!known_.contains(name) && !is_neutral_json(value)) names.push_back(name);
  return names;
}

}  // namespace genesis
