// Parses a template to a syntax tree. Unknown filters and tests are errors, and so are statements that chat templates do not use
// (include, import, extends, block).
#pragma once

#include <string_view>

#include "models/chat/jinja/syntax/expression_parser.h"

namespace genesis::jinja {

// Throws Error with the line of the template.
Block parse_template(std::string_view source, const Vocabulary& vocabulary);

}  // namespace genesis::jinja
