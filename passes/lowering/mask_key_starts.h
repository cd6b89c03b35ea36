// attention with key_start -> the same with a mask, where the target has no kernel for key_start. Not an optimisation: such a
// target could not run the node. Used by executor/compile.cpp on a graph whose sizes are known.
#pragma once

#include "schema/graph/graph.h"
#include "schema/graph/target.h"

namespace genesis::passes {

// attention(q, k, v, key_start) -> attention(q, k, v, mask), mask[b, 0, i, j] = j >= key_start[b, i]; its gradient too.
Graph mask_key_starts(const Graph& graph, const Target& target);

}  // namespace genesis::passes
