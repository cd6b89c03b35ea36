// Estimates the cost of nodes in a graph with symbols at given sizes.
#pragma once

#include "schema/graph/graph.h"
#include "schema/graph/target.h"

namespace genesis::passes {

// Returns zero cost for views.
Cost cost_of(const Graph& graph, const Node& node, const Bindings& sizes);
// Returns a time for comparing nodes, in units in which a multiply-add is 2: the maximum of that of products and that of memory
// traffic (Target::flops_per_byte_of_stages).
double time_of(const Graph& graph, const Node& node, const Bindings& sizes, const Target& target);

}  // namespace genesis::passes
