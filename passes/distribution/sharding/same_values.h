// Finds the values of one rank's graph that are the same on all ranks along "tensor" (passes/distribution/partition.cpp).
#pragma once

#include <vector>

#include "passes/core/pass.h"

namespace genesis::passes {

// Returns, for each value, whether it is known to be the same on all ranks: inputs, states that are not sharded, sums over the
// ranks, gathered values, and everything computed from these, including random numbers. A value that is not known to be the
// same may still be.
std::vector<bool> same_on_ranks(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
