// What nodes of a graph with symbols cost at given sizes.
#pragma once

#include "schema/graph/graph.h"
#include "schema/graph/target.h"

namespace genesis::passes {

// Nothing for views.
Cost cost_of(const Graph& graph, const Node& node, const Bindings& sizes);
// In units in which a multiply-add is 2: of products or of memory (Target::flops_per_byte_of_stages), whichever takes longer. For
// comparing nodes.
double time_of(const Graph& graph, const Node& node, const Bindings& sizes, const Target& target);

}  // namespace genesis::passes
