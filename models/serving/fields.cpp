#include "models/serving/fields.h"

#include <algorithm>

#include "schema/file/json_text.h"

namespace genesis::serving {
namespace {

constexpr size_t kMembers = 2000;  // an object's: reading takes time quadratic in them

// Throws Error if an object has too many members. Counts colons outside of strings.
void check_members(std::string_view text) {
  std::vector<size_t> open;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\';
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      open.push_back(0);
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
    } else if (c == ':' && !open.empty() && ++open.back() > kMembers) {
      fail("an object has more than {} members", kMembers);
    }
  }
}

}  // namespace

Json parse_body(std::string_view text) {
  try {
    check_members(text);
    Json body = parse_ordered_json_text(text, "the body");
    if (body.is_object()) return body;
    refuse("", "expected a JSON object as the body, got {}", shown(body));
  } catch (const ApiError&) {
    throw;
  } catch (const Error& error) {
    refuse("", "{}", error.message());
  }
}

std::optional<Json> try_parse(std::string_view text) {
  try {
    check_members(text);
    return parse_ordered_json_text(text);
  } catch (const Error&) {
    return {};
  }
}

std::string json_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string shown(const Json& value) {
  constexpr size_t kShown = 60;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

Fields::Fields(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
  if (object.is_object()) return;
  const std::string name = place_.substr(0, place_.find_last_of('.'));
  refuse(name, "{}: expected an object, got {}", name, shown(object));
}

const Json* Fields::find(const std::string& name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::required(const std::string& name, const std::string& expected) {
  const Json* value = find(name);
  if (value) return *value;
  throw ApiError(400, "invalid_request_error", "missing_required_parameter",
                 fmt::format("{} is missing: expected {}", path(name), expected), path(name));
}

std::optional<std::string> Fields::text(const std::string& name) {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_string()) refuse_value(name, "a string", *value);
  return value->get<std::string>();
}

std::optional<bool> Fields::flag(const std::string& name) {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_boolean()) refuse_value(name, "true or false", *value);
  return value->get<bool>();
}

std::vector<std::string> Fields::texts(const std::string& name) {
  const Json* value = find(name);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  const auto is_text = [](const Json& one) { return one.is_string(); };
  if (!value->is_array() || !std::ranges::all_of(*value, is_text))
    refuse_value(name, "a string, or a list of strings", *value);
  return value->get<std::vector<std::string>>();
}

std::vector<int64_t> Fields::whole_numbers(const std::string& name, const Json& list) const {
  const auto is_whole = [](const Json& one) { return one.is_number_integer(); };
  if (!list.is_array() || !std::ranges::all_of(list, is_whole))
    refuse_value(name, "a list of whole numbers", list);
  return list.get<std::vector<int64_t>>();
}

void Fields::ignore(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (find(name)) ignored_.push_back(path(name));
}

void Fields::refuse_others() const {
  for (const auto& [name, value] : object_.items())
    if (!known_.contains(name))
      throw ApiError(400, "invalid_request_error", "unknown_parameter",
                     fmt::format("{} is not known here: leave it out", path(name)), path(name));
}

void Fields::refuse_value(const std::string& name, const std::string& expected, const Json& got) const {
  refuse(path(name), "{}: expected {}, got {}", path(name), expected, shown(got));
}

}  // namespace genesis::serving
