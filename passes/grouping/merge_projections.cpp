#include "passes/grouping/passes.h"

#include <algorithm>

#include "passes/grouping/head_operands.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

using Layers = std::vector<const Node*>;

// A copy of a state that only this layer reads.
bool is_own_cast(const Graph& graph, const Uses& uses, ValueId value) {
  const auto cast = match_sole<ops::Cast>(graph, uses, value);
  return cast && graph.value(cast.input(0)).kind == ValueKind::kState;
}

bool may_merge(const Graph& graph, const Uses& uses, const Matched<ops::Linear>& layer) {
  if (!layer || !layer->is_plain() || layer->activation != Activation::kNone || layer->has_addend)
    return false;
  return std::all_of(layer.node->inputs.begin() + 1, layer.node->inputs.end(),
                     [&](ValueId input) { return is_own_cast(graph, uses, input); });
}

// The layers that make `values`, if they can be one: of one x, all with a bias or none.
Layers match_layers(const Graph& graph, const Uses& uses, const std::vector<ValueId>& values) {
  Layers layers;
  for (ValueId value : values) {
    const auto layer = match_sole<ops::Linear>(graph, uses, value);
    if (!may_merge(graph, uses, layer)) return {};
    layers.push_back(layer.node);
    if (layer.input(0) != layers[0]->inputs[0] || layer.num_inputs() != layers[0]->inputs.size()) return {};
  }
  return layers;
}

Value beside_each_other(Rewriter& rewriter, const Layers& layers, size_t input) {
  if (input >= layers[0]->inputs.size()) return {};
  std::vector<Value> parts;
  for (const Node* layer : layers) parts.push_back(rewriter.map(layer->inputs[input]));
  return concat(parts, 0);
}

// Named beside `reader`: by one of the layers it would be mistaken for that.
Value merged(Rewriter& rewriter, const Layers& layers, const Node& reader) {
  Layers from = layers;
  from.push_back(&reader);
  rewriter.from_nodes(from);
  const Value weight = beside_each_other(rewriter, layers, 1), bias = beside_each_other(rewriter, layers, 2);
  return linear(rewriter.map(layers[0]->inputs[0]), weight, bias);
}

Replacement merge_heads(Rewriter& rewriter, const Uses& uses, const Node& node) {
  const Graph& graph = rewriter.old();
  const auto operands = match_head_operands(graph, uses, node);
  if (!operands) return std::nullopt;
  const Layers layers = match_layers(graph, uses, {operands->q.rows, operands->k.rows, operands->v.rows});
  if (layers.empty()) return std::nullopt;
  return {{attend_packed(rewriter, node, *operands, merged(rewriter, layers, *operands->q.reshape))}};
}

Replacement merge_gate(Rewriter& rewriter, const Uses& uses, const Node& node) {
  if (!is<ops::Swiglu>(node) || node.inputs.size() != 2) return std::nullopt;
  const Layers layers = match_layers(rewriter.old(), uses, node.inputs);
  if (layers.empty()) return std::nullopt;
  const Value gate_and_up = merged(rewriter, layers, node);
  rewriter.from_nodes({&node});
  return {{packed_swiglu(gate_and_up)}};
}

}  // namespace

Graph merge_projections(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  return rewrite(
      graph,
      [&](Rewriter& rewriter, const Node& node) {
        Replacement heads = merge_heads(rewriter, uses, node);
        return heads ? heads : merge_gate(rewriter, uses, node);
      },
      context.target);
}

}  // namespace genesis::passes
