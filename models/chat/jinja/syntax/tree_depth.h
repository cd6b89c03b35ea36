// How deep a tree is, so that none is made that could not be walked.
#pragma once

#include "models/chat/jinja/syntax/syntax.h"

namespace genesis::jinja {

// Of the deepest expression that stands in `node`; 0 where none does.
int depth_below(const Expression::Node& node);

}  // namespace genesis::jinja
