// Copies the nodes of one graph into another, so that an entry point becomes part of a larger one: the loss becomes part of the
// training step.
#pragma once

#include <functional>
#include <map>

#include "schema/graph/graph.h"

namespace genesis::passes {

struct InlinedGraph {
  std::map<std::string, Value> outputs;
  std::map<int32_t, Value> updates;  // by state
};

// Returns the value that replaces the only output of `node`, a node of `from` whose inputs are now `inputs`; empty: the node is
// copied.
using ReplaceNode = std::function<Value(const Node& node, const std::vector<Value>& inputs)>;

// `inputs` are by input number of `from`. A state listed in `states` is read as that value instead. Nodes keep their names
// unless a name is taken; origins are always kept. Both graphs must belong to the same model.
InlinedGraph inline_graph(Graph& into, const Graph& from, const std::vector<Value>& inputs,
                          const std::map<int32_t, Value>& states = {}, const ReplaceNode& replace = {});

}  // namespace genesis::passes
