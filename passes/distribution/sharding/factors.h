// The factors of nodes (passes/distribution/sharding/factor.h), by the rules of their ops.
#pragma once

#include <vector>

#include "passes/distribution/sharding/factor.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

// The factors of a node, from the types in the graph; none of an op without a rule.
std::vector<Factor> factors_of(const Graph& graph, const Node& node);
// The attributes of the node where it computes a part of the factor. `graph` has the node, with whole types.
Attributes attributes_of_part(const Graph& graph, const Node& node, const Factor& factor,
                              const FactorPart& part);

}  // namespace genesis::passes
