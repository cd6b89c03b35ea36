#include "passes/fusion/elementwise/fusion_groups.h"

#include <algorithm>

#include "passes/core/match.h"
#include "schema/graph/plugin_ops.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/fused_program.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

constexpr size_t kMaxMembers = 48;
constexpr int64_t kMaxRow = 8192;  // longest row that a region may hold in fast memory, possibly several times

size_t index(NodeId id) { return static_cast<size_t>(id.index); }

const Node* producer_of(const Graph& graph, ValueId value) {
  const ValueInfo& info = graph.value(value);
  return info.kind == ValueKind::kNode ? &graph.node(info.producer) : nullptr;
}

bool is_free(const Node& node) { return is<ops::Expand, ops::Full>(node); }

}  // namespace

Shape row_shape(const Shape& space) {
  Shape shape = space;
  if (shape.rank() > 0) shape[shape.rank() - 1] = 1;
  return shape;
}

bool reduces_rows(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 1 || !node.attributes.find("keep_dims")) return false;
  Attributes kept = node.attributes;
  kept.set("keep_dims", true);
  const Shape& shape = graph.type(node.inputs[0]).shape;
  return is_row_reduction(*node.op, kept, shape.rank()) && shape.is_constant() &&
         shape[shape.rank() - 1].value() > 0 && shape[shape.rank() - 1].value() <= kMaxRow;
}

NodeId source_of(const Graph& graph, ValueId value) {
  const Node* node = producer_of(graph, value);
  while (node && is<ops::Expand>(*node)) {
    value = node->inputs[0];
    node = producer_of(graph, value);
  }
  if (node && is<ops::Reshape>(*node)) {
    const Node* before = producer_of(graph, node->inputs[0]);
    if (before && reduces_rows(graph, *before) &&
        graph.type(value).shape == row_shape(graph.type(before->inputs[0]).shape))
      return graph.value(node->inputs[0]).producer;
  }
  return node ? graph.value(value).producer : NodeId{};
}

FusionGroups::FusionGroups(const Graph& graph)
    : graph_(graph), group_of_(graph.nodes().size()), order_(start_groups()) {
  // Goes from the end: a value that only a late node reads is computed next to this node instead of next to its operands.
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const NodeId consumer{static_cast<int32_t>(i)};
    if (!of(consumer).fusable) continue;
    for (ValueId input : graph.node(consumer).inputs)
      if (const NodeId producer = source_of(graph, input); producer.index >= 0) try_merge(producer, consumer);
  }
}

// Puts every node into a group of its own. Returns the readers of each node, looking through free nodes.
std::vector<std::vector<int32_t>> FusionGroups::start_groups() {
  std::vector<std::vector<int32_t>> readers(graph_.nodes().size());
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    const Node& node = graph_.nodes()[i];
    FusionGroup group{.members = {id}, .space = {}};
    if (reduces_rows(graph_, node)) {
      group = {{id}, graph_.type(node.inputs[0]).shape, true, true};
    } else if (node.op->info.elementwise && node.outputs.size() == 1 && !is_plugin_op(*node.op)) {
      group = {{id}, graph_.type(node.outputs[0]).shape, true, false};
    }
    for (ValueId input : node.inputs) {
      const ValueInfo& info = graph_.value(input);
      const NodeId from = group.fusable ? source_of(graph_, input) : info.producer;
      if (from.index >= 0) readers[index(from)].push_back(id.index);
    }
    group_of_[i] = i;
    groups_.push_back(std::move(group));
  }
  // Treats exchanges as readers of the previous ones: a region must not make one exchange wait for a later one.
  for (const auto& [first, second] : order_of_exchanges(graph_))
    readers[index(first)].push_back(second.index);
  return readers;
}

// Merges both groups if they run over the same indices, or one over the rows of the other.
void FusionGroups::try_merge(NodeId producer, NodeId consumer) {
  const size_t a = index_of(producer), b = index_of(consumer);
  if (a == b || !groups_[a].fusable || is_free(graph_.node(producer))) return;
  FusionGroup &first = groups_[a], &second = groups_[b];
  if (first.members.size() + second.members.size() > kMaxMembers) return;
  const bool same = first.space == second.space;
  const bool first_has_rows = first.has_rows && !second.has_rows && second.space == row_shape(first.space);
  const bool second_has_rows = second.has_rows && !first.has_rows && first.space == row_shape(second.space);
  if (!same && !first_has_rows && !second_has_rows) return;
  if (!order_.try_join(producer.index, consumer.index)) return;
  if (first_has_rows) second.space = first.space;
  second.has_rows = second.has_rows || first.has_rows;
  std::vector<NodeId> members;
  std::ranges::merge(first.members, second.members, std::back_inserter(members));
  second.members = std::move(members);
  for (NodeId member : first.members) group_of_[index(member)] = b;
  first.members.clear();
}

void FusionGroups::dissolve(NodeId member) {
  const std::vector<NodeId> members = of(member).members;
  groups_[index_of(member)].members.clear();
  for (NodeId id : members) {
    group_of_[index(id)] = groups_.size();
    groups_.push_back({.members = {id}, .space = {}});
  }
}

}  // namespace genesis::passes
