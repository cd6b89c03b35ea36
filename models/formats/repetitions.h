// Repeats a tensor along its axes as often as sizes say, which may be open, for the importers of other formats.
#pragma once

#include <vector>

#include "schema/graph/graph.h"

namespace genesis::models {

// Returns x with `repeats` copies along each axis; there is one number for each axis of x.
Value repeat_by_sizes(Value x, const std::vector<Dim>& repeats);

}  // namespace genesis::models
