// Ops that only rename the axes of dense memory: their results are views. Used by authors and by gradient rules.
#pragma once

#include "schema/graph.h"

namespace genesis {

Value reshape(Value x, Shape shape);  // one size may be -1; symbols are matched algebraically
Value flatten(Value x, int64_t start_axis = 0, int64_t end_axis = -1);
Value squeeze(Value x, int64_t axis);
Value unsqueeze(Value x, int64_t axis);  // -1 appends

}  // namespace genesis
