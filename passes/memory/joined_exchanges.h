// Concatenations that are no work: where all that is joined are results of exchanges between ranks that nobody else reads (the
// weights of layers that are computed together, as q, k and v), each is exchanged to its place in the whole; and where an update
// of a state writes parts of it over the old ones.
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

// What a value is all of, in another shape, where a node makes that.
std::optional<ValueId> viewed_whole(const Graph& graph, ValueId value);

// By result of an exchange. Sizes must be known, here and below.
std::map<ValueId, JoinedPiece> joined_exchanges(const Graph& graph);

// Of concatenations that are among `new_states`, by what they join and nobody else reads.
std::map<ValueId, JoinedPiece> joined_parts(const Graph& graph, const std::set<ValueId>& new_states);

}  // namespace genesis::passes
