// A graph as columns of a page's data: `Graph` and `Change` of tools/viz/page/data.d.ts.
#pragma once

#include "schema/graph/graph.h"
#include "tools/viz/data/tables.h"

namespace genesis::viz {

// `sized`: a graph with the same nodes in which sizes are known, for costs; null: there is none.
Json graph_data(const Graph& graph, const Graph* sized, Tables& tables);

// What became of the nodes of `before` in `after`; nodes are the same where they have the same name.
Json change_data(const Graph& before, const Graph& after);

// Whether both have the same nodes in the same order, by name.
bool has_same_nodes(const Graph& a, const Graph& b);

}  // namespace genesis::viz
