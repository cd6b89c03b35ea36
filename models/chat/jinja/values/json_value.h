// JSON as values of a template, in the order of its keys.
#pragma once

#include <string_view>

#include "models/chat/jinja/values/value.h"

namespace genesis::jinja {

// Takes time in proportion to the text. Throws Error for what is no JSON, nests deeper than 64 lists and objects, or has
// integers beyond 64 bits.
Value parse_json(std::string_view text);

}  // namespace genesis::jinja
