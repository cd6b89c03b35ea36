// Makes the candidate orders of nodes, of which memory planning first chooses the one that keeps the fewest bytes alive: no
// arena can be smaller than this peak. Results of the graph do not depend on the order. Sharing of memory
// (passes/memory/aliasing.h) and offsets follow.
//
// Candidates: the order of the graph; the same with nodes as late as their first reader allows; the late order with nodes that take no
// memory as early as possible; and a greedy list schedule that always runs the ready node which frees most. make_plan takes the one with
// the lowest peak; the graph's own order wins ties, since authors write sensible ones. Exchanges of sharded weights stay before the
// node that they precede in the graph (passes/distribution/place_gathers).
#pragma once

#include <vector>

#include "schema/graph/graph.h"

namespace genesis::passes {

std::vector<NodeId> graph_order(const Graph& graph);
// Moves nodes that read nothing from the arena right before the first node that needs them.
std::vector<NodeId> late_order(const Graph& graph);
// Is late_order, except that a node which raises the live bytes by at most 256 runs as soon as its inputs exist. The new value of a
// state counts as no bytes. So the update of a weight runs right behind its gradient, which is then free, unless the update waits for
// something else, such as the norm of all gradients. (Lv et al. 2023, "Full Parameter Fine-tuning for Large Language Models with
// Limited Resources", arXiv:2306.09782, updates in this order.)
std::vector<NodeId> eager_order(const Graph& graph);
// Variations differ in the order of equally good nodes; 0 keeps the graph's order.
std::vector<NodeId> greedy_order(const Graph& graph, uint32_t variation = 0);

}  // namespace genesis::passes
