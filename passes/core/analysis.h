// Questions that passes ask about a graph: which nodes are needed, who reads a value, what a value is made
// of. Plain functions over a graph that does not change meanwhile.
#pragma once

#include <utility>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis::passes {

// By node: is it one of `nodes`, or does one of them need it?
std::vector<bool> needed_by(const Graph& graph, const std::vector<NodeId>& nodes);
// By node: does an output or an update need it, or a peer that another rank has?
std::vector<bool> live_nodes(const Graph& graph);

// One of a pair, the second, must come after the other.
using Precedence = std::pair<NodeId, NodeId>;
// `nodes` by all precedences, which may repeat; where these leave a choice, the lower number comes first.
std::vector<NodeId> in_order(const std::vector<NodeId>& nodes, const std::vector<Precedence>& precedences);

// Each exchange of all ranks with the next one, where ranks have different graphs (one has a node with a peer): all must start
// such exchanges in the same order. Empty where all ranks have the same graph.
std::vector<Precedence> order_of_exchanges(const Graph& graph);

// Who reads a value: live nodes (once per operand), outputs and updates.
class Uses {
 public:
  explicit Uses(const Graph& graph);
  int count(ValueId value) const { return counts_[static_cast<size_t>(value.index)]; }
  bool single(ValueId value) const { return count(value) == 1; }
  // The live nodes that read it, in order, each once.
  const std::vector<NodeId>& readers(ValueId value) const {
    return readers_[static_cast<size_t>(value.index)];
  }

 private:
  std::vector<int> counts_;
  std::vector<std::vector<NodeId>> readers_;
};

NodeId id_of(const Graph& graph, const Node& node);
// The state that a value is; -1: none.
int32_t state_of(const Graph& graph, ValueId id);
// The node that makes a value, as any of its outputs; null where none does. Of one op: passes/core/match.h.
const Node* producer(const Graph& graph, ValueId value);

}  // namespace genesis::passes
