#include "passes/core/analysis.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "schema/core/error.h"
#include "schema/graph/model.h"
#include "schema/ops/collective/point_to_point.h"

namespace genesis::passes {

std::vector<bool> needed_by(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<bool> needed(graph.nodes().size());
  const auto mark = [&](NodeId id) {
    if (id.index >= 0) needed[static_cast<size_t>(id.index)] = true;
  };
  for (const NodeId id : nodes) mark(id);
  for (size_t i = needed.size(); i-- > 0;)
    if (needed[i])
      for (ValueId input : graph.nodes()[i].inputs) mark(graph.value(input).producer);
  return needed;
}

std::vector<bool> live_nodes(const Graph& graph) {
  std::vector<NodeId> makers;  // invalid ids for values that no node makes
  for (const NamedValue& output : graph.outputs()) makers.push_back(graph.value(output.value).producer);
  for (const StateUpdate& update : graph.updates()) makers.push_back(graph.value(update.value).producer);
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    if (has_peer(*graph.nodes()[i].op)) makers.push_back({static_cast<int32_t>(i)});
  return needed_by(graph, makers);
}

std::vector<NodeId> in_order(const std::vector<NodeId>& nodes, const std::vector<Precedence>& precedences) {
  std::map<NodeId, std::vector<NodeId>> followers;
  std::map<NodeId, int> waits;
  for (const NodeId node : nodes) waits.emplace(node, 0);
  for (const auto& [before, after] : precedences) {
    followers[before].push_back(after);
    ++waits.at(after);
  }
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (const auto& [node, count] : waits)
    if (count == 0) ready.push(node);
  std::vector<NodeId> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const NodeId next : followers[order.back()])
      if (--waits.at(next) == 0) ready.push(next);
  }
  GENESIS_ASSERT(order.size() == waits.size());
  return order;
}

std::vector<Precedence> order_of_exchanges(const Graph& graph) {
  std::vector<Precedence> order;
  const auto& nodes = graph.nodes();
  if (std::ranges::none_of(nodes, [](const Node& node) { return has_peer(*node.op); })) return order;
  NodeId last;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].op->info.collective) continue;
    const NodeId exchange{static_cast<int32_t>(i)};
    if (last.index >= 0) order.emplace_back(last, exchange);
    last = exchange;
  }
  return order;
}

Uses::Uses(const Graph& graph) : counts_(graph.values().size()), readers_(graph.values().size()) {
  const std::vector<bool> live = live_nodes(graph);
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    const NodeId id{static_cast<int32_t>(i)};
    for (ValueId input : graph.node(id).inputs) {
      ++counts_[static_cast<size_t>(input.index)];
      auto& readers = readers_[static_cast<size_t>(input.index)];
      if (readers.empty() || readers.back() != id) readers.push_back(id);
    }
  }
  for (const NamedValue& output : graph.outputs()) ++counts_[static_cast<size_t>(output.value.index)];
  for (const StateUpdate& update : graph.updates()) ++counts_[static_cast<size_t>(update.value.index)];
}

NodeId id_of(const Graph& graph, const Node& node) { return graph.value(node.outputs.at(0)).producer; }

const Node* producer(const Graph& graph, ValueId value) {
  const NodeId id = graph.value(value).producer;
  return id.index < 0 ? nullptr : &graph.node(id);
}

int32_t state_of(const Graph& graph, ValueId id) {
  const ValueInfo& value = graph.value(id);
  return value.kind == ValueKind::kState ? value.index : -1;
}

}  // namespace genesis::passes
