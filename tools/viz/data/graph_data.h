// Converts a graph to columns of a page's data: `Graph` and `Change` of tools/viz/page/data.d.ts.
#pragma once

#include "schema/graph/graph.h"
#include "tools/viz/data/tables.h"

namespace genesis::viz {

// `sized`: a graph with the same nodes and with known sizes, from which costs are computed; null: none.
Json graph_data(const Graph& graph, const Graph* sized, Tables& tables);

// Returns the changes from the nodes of `before` to those of `after`. Nodes are the same if they have the same name.
Json change_data(const Graph& before, const Graph& after);

// Returns true if both graphs have the same nodes in the same order, by name.
bool has_same_nodes(const Graph& a, const Graph& b);

}  // namespace genesis::viz
