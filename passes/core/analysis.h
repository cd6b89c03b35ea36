// Answers questions about a graph: which nodes are needed, which nodes read a value, what makes a value. The graph must not
// change while the answers are in use.
#pragma once

#include <utility>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis::passes {

// Returns, for each node, whether it is in `nodes` or a node in `nodes` depends on it.
std::vector<bool> needed_by(const Graph& graph, const std::vector<NodeId>& nodes);
// Returns, for each node, whether an output or an update depends on it, or a send or recv, which another rank waits for.
std::vector<bool> live_nodes(const Graph& graph);

// A pair (before, after): the second node must run after the first.
using Precedence = std::pair<NodeId, NodeId>;
// Sorts `nodes` topologically by `precedences`, which may contain duplicates. Among nodes that are ready, the lowest id comes
// first.
std::vector<NodeId> in_order(const std::vector<NodeId>& nodes, const std::vector<Precedence>& precedences);

// Returns a pair for each collective and the next one if the graph contains a send or recv. Ranks then have different graphs,
// and all of them must start their exchanges in the same order. Empty for a graph without send and recv: all ranks have the
// same graph.
std::vector<Precedence> order_of_exchanges(const Graph& graph);

// Counts the readers of each value: live nodes (once per operand), outputs and updates.
class Uses {
 public:
  explicit Uses(const Graph& graph);
  int count(ValueId value) const { return counts_[static_cast<size_t>(value.index)]; }
  bool single(ValueId value) const { return count(value) == 1; }
  // Returns the live nodes that read the value, in order, each once.
  const std::vector<NodeId>& readers(ValueId value) const {
    return readers_[static_cast<size_t>(value.index)];
  }

 private:
  std::vector<int> counts_;
  std::vector<std::vector<NodeId>> readers_;
};

NodeId id_of(const Graph& graph, const Node& node);
// Returns the state that the value is; -1 if it is none.
int32_t state_of(const Graph& graph, ValueId id);
// Returns the node that has the value as one of its outputs; null if there is none. passes/core/match.h asks for a given op.
const Node* producer(const Graph& graph, ValueId value);

}  // namespace genesis::passes
