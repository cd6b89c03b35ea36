// Returns the factors of nodes (passes/distribution/sharding/factor.h), by the rules of their ops.
#pragma once

#include <vector>

#include "passes/distribution/sharding/factor.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

// Returns the factors of a node, by the types in the graph; none for an op without a rule.
std::vector<Factor> factors_of(const Graph& graph, const Node& node);
// Returns the attributes of the node that computes a shard of the factor. `graph` contains the unsharded node.
Attributes attributes_of_shard(const Graph& graph, const Node& node, const Factor& factor,
                               const FactorShard& shard);

}  // namespace genesis::passes
