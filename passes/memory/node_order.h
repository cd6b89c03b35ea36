// The order in which nodes run, chosen to keep few bytes alive: the first half of memory planning lowers the
// bound that offsets can only meet. Results do not depend on it.
//
// Candidates: the order of the graph, the same with every node as late as its first reader allows, and a
// greedy list schedule that always runs the ready node which frees most. make_plan takes the one with the
// lowest peak; the graph's own order wins ties, since authors write sensible ones. What ranks exchange of states alone, which
// is weights of which each has a part, stays before the node it stands before in the graph (passes/distribution/place_gathers).
#pragma once

#include <vector>

#include "schema/graph/graph.h"

namespace genesis::passes {

std::vector<NodeId> graph_order(const Graph& graph);
// Every node right before the first node that needs it, as far as that lets inputs die no later.
std::vector<NodeId> late_order(const Graph& graph);
// Variations differ in which of equally good nodes comes first; 0 is the graph's order.
std::vector<NodeId> greedy_order(const Graph& graph, uint32_t variation = 0);

}  // namespace genesis::passes
