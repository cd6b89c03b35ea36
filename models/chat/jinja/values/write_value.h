// Converts values to text like Python's str() and repr(), and to JSON.
#pragma once

#include <optional>
#include <string>

#include "models/chat/jinja/values/budget.h"
#include "models/chat/jinja/values/value.h"

namespace genesis::jinja {

std::string to_text(Budget& budget, const Value& value);  // str(); "" for an undefined value
std::string to_repr(Budget& budget, const Value& value);

// The formatting options of Python's json.dumps().
struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string> indent = {};
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace genesis::jinja
