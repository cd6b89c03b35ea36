// How long the sums are that one element of an op's result is made of: what rounding may make of it grows with them.
// Used by `genesis-run compare` for its tolerances, and by rooflines.
#pragma once

#include "schema/graph/op.h"

namespace genesis {

// How many terms one element of the result is a sum of: k of a product, the elements of a reduction or a norm. 1 where
// nothing is summed. Sizes must be known.
double sum_length(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs);

// Whether cost_of() is that of the most work there can be, where data say how much there is: how full a cache is, how
// long a row.
bool cost_depends_on_data(const OpDef& op, const Attributes& attributes);

}  // namespace genesis
