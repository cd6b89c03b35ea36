// Copies the nodes of one graph into another: how an entry point becomes part of a larger one. Used to make
// the training step out of the loss.
#pragma once

#include <functional>
#include <map>

#include "schema/graph/graph.h"

namespace genesis::passes {

struct InlinedGraph {
  std::map<std::string, Value> outputs;
  std::map<int32_t, Value> updates;  // by state
};

// What stands for the one output of a node of `from`, whose inputs are now these; empty: a copy of the node.
using ReplaceNode = std::function<Value(const Node& node, const std::vector<Value>& inputs)>;

// `inputs` by input number of `from`; a state listed in `states` is read as that value instead. Names are
// kept where they are free, and the author's names in any case. Both graphs belong to one model.
InlinedGraph inline_graph(Graph& into, const Graph& from, const std::vector<Value>& inputs,
                          const std::map<int32_t, Value>& states = {}, const ReplaceNode& replace = {});

}  // namespace genesis::passes
