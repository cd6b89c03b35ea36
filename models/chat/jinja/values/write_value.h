// Values as text: as Python's str() and repr() write them, and as JSON.
#pragma once

#include <optional>
#include <string>

#include "models/chat/jinja/values/budget.h"
#include "models/chat/jinja/values/value.h"

namespace genesis::jinja {

std::string to_text(Budget& budget, const Value& value);  // str(); nothing for what is undefined
std::string to_repr(Budget& budget, const Value& value);

// As json.dumps takes them.
struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string> indent = {};
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace genesis::jinja
