// Parses JSON to template values, preserving the order of keys.
#pragma once

#include <string_view>

#include "models/chat/jinja/values/value.h"

namespace genesis::jinja {

// Takes time linear in the text. Throws Error if it is not JSON, is nested more than 64 deep, or has integers beyond 64 bits.
Value parse_json(std::string_view text);

}  // namespace genesis::jinja
