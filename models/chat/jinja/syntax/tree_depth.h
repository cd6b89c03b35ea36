// Computes the depth of a syntax tree, so that the parser can refuse trees too deep to be walked recursively.
#pragma once

#include "models/chat/jinja/syntax/syntax.h"

namespace genesis::jinja {

// Returns the depth of the deepest child expression of `node`; 0 if it has none.
int depth_below(const Expression::Node& node);

}  // namespace genesis::jinja
