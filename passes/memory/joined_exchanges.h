// Finds concatenations that need no copy. If all operands are results of exchanges between ranks with a single reader (weights
// of layers that are computed together, such as q, k and v), each is received at its place in the result. If an update of a
// state writes slices of it, they overwrite the old ones.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "schema/graph/graph.h"

namespace genesis::passes {

struct JoinedPiece {
  ValueId whole;  // the concatenation
  int64_t offset = 0;
};

// Returns the value that `value` is a view of with all its elements, if a node computes it.
std::optional<ValueId> viewed_whole(const Graph& graph, ValueId value);

// Returns the place of each exchange result that is received in place. Sizes must be known, here and below.
std::map<ValueId, JoinedPiece> joined_exchanges(const Graph& graph);

// Returns the place of each operand with a single reader in the concatenations that are among `new_states`.
std::map<ValueId, JoinedPiece> joined_parts(const Graph& graph, const std::set<ValueId>& new_states);

}  // namespace genesis::passes
