// A template's text as a tree. Strict: filters and tests that are not known, and statements that chat templates do not use
// (include, import, extends, block), are errors.
#pragma once

#include <string_view>

#include "models/chat/jinja/syntax/expression_parser.h"

namespace genesis::jinja {

// Throws Error with the line of the template.
Block parse_template(std::string_view source, const Vocabulary& vocabulary);

}  // namespace genesis::jinja
