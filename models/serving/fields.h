// Reads the fields of a request one by one, and refuses what nobody has read: no field is ignored in silence.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/serving/api_error.h"
#include "models/serving/json.h"
#include "schema/core/number_range.h"

namespace genesis::serving {

// Fields whose value is null count as absent. All functions throw ApiError, which names the field, for a value of another type.
class Fields {
 public:
  // `object` must outlive this object. `place` is the path of an inner object: "stream_options."; empty for the body.
  explicit Fields(const Json& object, std::string place = {});

  const Json* find(const std::string& name);  // null if absent
  const Json& required(const std::string& name, const std::string& expected);
  std::optional<std::string> text(const std::string& name);
  std::optional<bool> flag(const std::string& name);
  template <class T>
  std::optional<T> number(const std::string& name, const Range<T>& range = {});
  // Returns the strings of a field that is a string or a list of strings.
  std::vector<std::string> texts(const std::string& name);
  std::vector<int64_t> whole_numbers(const std::string& name, const Json& list) const;

  // Takes fields that change nothing here. Those that are present are named to the client in the header x-genesis-ignored.
  void ignore(const std::vector<std::string>& names);
  const std::vector<std::string>& ignored() const { return ignored_; }
  // Throws ApiError that names the first field that was not read.
  void refuse_others() const;

  std::string path(const std::string& name) const { return place_ + name; }
  [[noreturn]] void refuse_value(const std::string& name, const std::string& expected, const Json& got) const;

 private:
  const Json& object_;
  const std::string place_;
  std::set<std::string> known_;
  std::vector<std::string> ignored_;
};

template <class T>
std::optional<T> Fields::number(const std::string& name, const Range<T>& range) {
  const Json* value = find(name);
  if (!value) return {};
  bool fits = std::is_integral_v<T> ? value->is_number_integer() : value->is_number();
  if (std::is_unsigned_v<T>) fits = fits && value->is_number_unsigned();
  if (std::is_signed_v<T> && value->is_number_unsigned())
    fits = fits && value->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!fits || !range.holds(value->get<T>())) refuse_value(name, range.text(true), *value);
  return value->get<T>();
}

}  // namespace genesis::serving
