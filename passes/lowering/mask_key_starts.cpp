#include "passes/lowering/mask_key_starts.h"

#include <limits>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/tensor/create.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

std::vector<TensorType> types_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<TensorType> types;
  for (const ValueId value : values) types.push_back(graph.type(value));
  return types;
}

// bool [batch, 1, queries, keys].
Value seen_from(Value key_start, const Dim& keys) {
  const Shape& s = key_start.shape();
  const Value key = arange(*key_start.graph, keys);
  return key >= reshape(key_start, {s[0], Dim(1), s[1], Dim(1)});
}

// Hides in `mask` what is not seen.
Value narrowed(Value mask, Value seen) {
  if (mask.dtype() == DType::boolean) return logical_and(mask, seen);
  return where(seen, mask, scalar_like(mask, -std::numeric_limits<double>::infinity()));
}

template <class Op>
Replacement with_mask(Rewriter& rewriter, const Node& node) {
  auto op = from_attributes<Op>(node.attributes);
  const std::vector<TensorType> types = types_of(rewriter.old(), node.inputs);
  const Dim keys = ops::qkv_types(op, types)[1].shape[op.layout == AttentionLayout::kBTHD ? 1 : 2];
  std::vector<Value> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(rewriter.map(input));
  const size_t first = inputs.size() - static_cast<size_t>(op.optional_inputs()), start = first + op.has_mask;
  const Value seen = seen_from(inputs[start], keys);
  inputs[start] = op.has_mask ? narrowed(inputs[first], seen) : seen;
  if (op.has_mask) inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(first));
  op.has_mask = true;
  op.has_key_start = false;
  return emit_node(*node.op, to_attributes(op), inputs);
}

bool runs(const Graph& graph, const Node& node, const Target& target) {
  return target.runs(
      target.query(*node.op, node.attributes, types_of(graph, node.inputs), types_of(graph, node.outputs)));
}

bool has_key_start(const Node& node) {
  return is<ops::Attention, ops::AttentionGrad>(node) &&
         ops::attention_rules(*node.op, node.attributes).has_key_start;
}

}  // namespace

Graph mask_key_starts(const Graph& graph, const Target& target) {
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) -> Replacement {
    if (!has_key_start(node) || runs(graph, node, target)) return std::nullopt;
    return is<ops::Attention>(node) ? with_mask<ops::Attention>(rewriter, node)
                                    : with_mask<ops::AttentionGrad>(rewriter, node);
  });
}

}  // namespace genesis::passes
