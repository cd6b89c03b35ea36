// Which values are the same on all ranks along "tensor", of the graph of one rank (passes/distribution/partition.cpp).
#pragma once

#include <vector>

#include "passes/core/pass.h"

namespace genesis::passes {

// By value. The same: inputs, states of which no rank has a part alone, and what all ranks make of such, random numbers
// among it; sums over the ranks and what is gathered from all. A value that is not said to be the same may be so.
std::vector<bool> same_on_ranks(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
