// Checks that slice.cpp and dynamic_slice.cpp share.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

// Returns the size in an attribute of rank 1. Throws Error if it has another rank.
const Dim& only_size(const Shape& shape, std::string_view attribute);
// Throws Error unless all of `length` elements from `start` in steps of `step` lie in [0, size), as far as sizes are known.
void check_slice(const Dim& start, const Dim& length, int64_t step, const Dim& size);
// Throws Error if inputs differ in dtype.
void check_same_dtypes(Types in, std::string_view op);

}  // namespace genesis
