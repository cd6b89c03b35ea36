// Softmax and its relatives.
#pragma once

#include "schema/graph.h"

namespace genesis {

Value softmax(Value x, int64_t axis = -1);
Value log_softmax(Value x, int64_t axis = -1);
// softmax(scale * x) of [..., queries, keys] where query i sees keys j <= i + (keys - queries).
Value causal_softmax(Value x, double scale = 1.0);

}  // namespace genesis
