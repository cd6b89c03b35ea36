#include "passes/memory/joined_exchanges.h"

#include "passes/core/match.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

constexpr int64_t kAlignment = 16;  // bytes that exchanges write at once

// Returns whether the operands are contiguous in the result.
bool joins_dense(const Graph& graph, const Matched<ops::Concat>& concat) {
  const Shape& shape = graph.type(concat.node->outputs[0]).shape;
  const int64_t axis = concat->axis < 0 ? concat->axis + shape.rank() : concat->axis;
  for (int i = 0; i < axis; ++i)
    if (!(shape[i] == Dim(1))) return false;
  return true;
}

// Returns the result of an exchange that `value` is a view of, if each of these values has a single reader.
std::optional<ValueId> sole_exchange(const Graph& graph, const Uses& uses, ValueId value) {
  while (uses.single(value)) {
    const Node* node = producer(graph, value);
    if (node && node->op->info.collective) return value;
    const std::optional<ValueId> source = viewed_whole(graph, value);
    if (!source) break;
    value = *source;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ValueId> viewed_whole(const Graph& graph, ValueId value) {
  const ValueInfo& info = graph.value(value);
  if (info.kind != ValueKind::kNode || info.index != 0) return std::nullopt;
  const Node& node = graph.node(info.producer);
  const bool is_view =
      node.op->view_offset && node.op->view_offset(node.attributes, graph.input_types(node)) == 0;
  if (!is_view || graph.type(node.inputs[0]).bytes() != info.type.bytes()) return std::nullopt;
  return graph.value(node.inputs[0]).kind == ValueKind::kNode ? std::optional(node.inputs[0]) : std::nullopt;
}

std::map<ValueId, JoinedPiece> joined_exchanges(const Graph& graph) {
  const Uses uses(graph);
  std::map<ValueId, JoinedPiece> all;
  for (const Node& node : graph.nodes()) {
    const auto concat = match<ops::Concat>(node);
    if (!concat || node.inputs.size() < 2 || !joins_dense(graph, concat)) continue;
    std::map<ValueId, JoinedPiece> pieces;
    JoinedPiece next{node.outputs[0]};
    for (const ValueId input : node.inputs) {
      const auto exchange = sole_exchange(graph, uses, input);
      if (!exchange || next.offset % kAlignment != 0) break;
      pieces.emplace(*exchange, next);
      next.offset += graph.type(input).bytes();
    }
    if (pieces.size() == node.inputs.size()) all.merge(pieces);
  }
  return all;
}

std::map<ValueId, JoinedPiece> joined_parts(const Graph& graph, const std::set<ValueId>& new_states) {
  const Uses uses(graph);
  std::map<ValueId, JoinedPiece> all;
  for (const Node& node : graph.nodes()) {
    const auto concat = match<ops::Concat>(node);
    if (!concat || !new_states.contains(node.outputs[0]) || !joins_dense(graph, concat)) continue;
    JoinedPiece next{node.outputs[0]};
    for (const ValueId input : node.inputs) {
      if (uses.single(input)) all.emplace(input, next);
      next.offset += graph.type(input).bytes();
    }
  }
  return all;
}

}  // namespace genesis::passes
