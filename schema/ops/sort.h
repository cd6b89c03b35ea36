// Order of elements along an axis. All are stable: equal elements keep their order; NaN counts as the
// greatest.
#pragma once

#include "schema/graph.h"

namespace genesis {

struct ValuesAndIndices {
  Value values, indices;  // indices i64
};
ValuesAndIndices topk(Value x, int64_t k, int64_t axis = -1, bool largest = true);
ValuesAndIndices sort(Value x, int64_t axis = -1, bool descending = false);
Value argsort(Value x, int64_t axis = -1, bool descending = false);

}  // namespace genesis
