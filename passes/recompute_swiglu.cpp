#include "passes/recompute_swiglu.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "passes/analysis.h"
#include "passes/rewriter.h"
#include "schema/ops/swiglu.h"

namespace genesis::passes {
namespace {

// A gradient that makes `output` again, and who then reads it from there.
struct Again {
  NodeId gradient;
  ValueId output;
  std::vector<NodeId> readers;
};

bool is_gradient(const Node& node) {
  return node.op->name() == "swiglu_grad" && !from_attributes<ops::SwigluGrad>(node.attributes).with_output;
}

// The swiglu of the same operands.
const Node* forward_of(const Graph& graph, const Uses& uses, const Node& gradient) {
  for (NodeId id : uses.readers(gradient.inputs[0])) {
    const Node& node = graph.node(id);
    if (node.op->name() == "swiglu" && std::equal(node.inputs.begin(), node.inputs.end(),
                                                  gradient.inputs.begin(), gradient.inputs.end() - 1))
      return &node;
  }
  return nullptr;
}

// By node: whether one of `nodes` needs it.
std::vector<bool> needed_by(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<bool> needed(graph.nodes().size());
  for (NodeId id : nodes) needed[static_cast<size_t>(id.index)] = true;
  for (size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (ValueId input : graph.nodes()[i].inputs)
      if (const Node* maker = producer(graph, input))
        needed[static_cast<size_t>(id_of(graph, *maker).index)] = true;
  }
  return needed;
}

// Whether nodes alone read the value: no output, no update.
bool only_nodes_read(const Graph& graph, ValueId value) {
  return std::none_of(graph.outputs().begin(), graph.outputs().end(),
                      [&](const NamedValue& output) { return output.value == value; }) &&
         std::none_of(graph.updates().begin(), graph.updates().end(),
                      [&](const StateUpdate& update) { return update.value == value; });
}

std::vector<Again> find(const Graph& graph, const Uses& uses) {
  const std::vector<bool> live = live_nodes(graph);
  std::vector<NodeId> gradients;
  for (size_t i = 0; i < live.size(); ++i)
    if (live[i] && is_gradient(graph.nodes()[i])) gradients.push_back({static_cast<int32_t>(i)});
  const std::vector<bool> needed = needed_by(graph, gradients);
  std::vector<Again> found;
  for (NodeId id : gradients) {
    const Node* forward = forward_of(graph, uses, graph.node(id));
    if (!forward || !only_nodes_read(graph, forward->outputs[0])) continue;
    Again again{id, forward->outputs[0], {}};
    const bool taken = std::any_of(found.begin(), found.end(),
                                   [&](const Again& other) { return other.output == again.output; });
    // What no gradient needs may wait for one: no two of them can wait for each other.
    for (NodeId reader : uses.readers(again.output))
      if (!needed[static_cast<size_t>(reader.index)]) again.readers.push_back(reader);
    if (!taken && !again.readers.empty()) found.push_back(std::move(again));
  }
  return found;
}

// The nodes as they stand, but for readers that have to wait for a gradient behind them.
std::vector<NodeId> order_of(const Graph& graph, const std::vector<Again>& all) {
  const size_t count = graph.nodes().size();
  std::vector<std::vector<int32_t>> later(count);
  std::vector<int> waits(count);
  const auto add = [&](int32_t before, int32_t after) {
    later[static_cast<size_t>(before)].push_back(after);
    ++waits[static_cast<size_t>(after)];
  };
  for (size_t i = 0; i < count; ++i)
    for (ValueId input : graph.nodes()[i].inputs)
      if (const Node* maker = producer(graph, input))
        add(id_of(graph, *maker).index, static_cast<int32_t>(i));
  for (const Again& again : all)
    for (NodeId reader : again.readers) add(again.gradient.index, reader.index);
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (size_t i = 0; i < count; ++i)
    if (waits[i] == 0) ready.push(static_cast<int32_t>(i));
  std::vector<NodeId> order;
  while (!ready.empty()) {
    order.push_back({ready.top()});
    ready.pop();
    for (int32_t next : later[static_cast<size_t>(order.back().index)])
      if (--waits[static_cast<size_t>(next)] == 0) ready.push(next);
  }
  GENESIS_ASSERT(order.size() == count);
  return order;
}

}  // namespace

Graph recompute_swiglu(const Graph& graph, const PassContext&) {
  const Uses uses(graph);
  const std::vector<Again> all = find(graph, uses);
  std::map<NodeId, ValueId> made;  // by gradient
  for (const Again& again : all) made[again.gradient] = again.output;
  Rewriter rewriter(graph);
  for (NodeId id : order_of(graph, all)) {
    const Node& node = graph.node(id);
    const auto at = made.find(id);
    if (at == made.end()) {
      rewriter.copy(node);
      continue;
    }
    rewriter.copy_with(node, to_attributes(ops::SwigluGrad{.with_output = true}));
    rewriter.replace(at->second, rewriter.graph().handle(rewriter.graph().nodes().back().outputs.back()));
  }
  return rewriter.finish();
}

}  // namespace genesis::passes
