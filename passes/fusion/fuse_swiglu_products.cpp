#include "passes/fusion/passes.h"

#include "passes/core/match.h"
#include "passes/core/native.h"
#include "passes/core/rewriter.h"
#include "schema/graph/cost_model.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/swiglu.h"

namespace genesis::passes {
namespace {

// Returns whether the fused kernel can take these shapes (16-byte accesses, 16-bit tensor cores) and gains time: the saved pass
// over gate and up must take longer than the idle time at the end of the fused product, whose tiles are large.
bool is_worth_it(const TensorType& gate_and_up, const TensorType& weight, const Target& target) {
  const Shape& shape = gate_and_up.shape;
  const auto is_multiple = [](const Dim& dim) { return dim.value() % 8 == 0; };
  return gate_and_up.dtype == DType::bf16 && shape.is_constant() && weight.shape.is_constant() &&
         seconds_to_move(target, gate_and_up.bytes()) > target.last_tiles_seconds &&
         shape[shape.rank() - 1].value() % 16 == 0 && is_multiple(weight.shape[0]) &&
         is_multiple(weight.shape[1]);
}

// Returns the swiglu that reads the layer's result as gate and up side by side; null if there is none.
const Node* swiglu_of(const Graph& graph, const Uses& uses, const Node& layer) {
  for (NodeId id : uses.readers(layer.outputs[0]))
    if (const Node& reader = graph.node(id); is<ops::Swiglu>(reader) && reader.inputs.size() == 1)
      return &reader;
  return nullptr;
}

bool is_plain_layer(const Graph& graph, const Node& node, const Target& target) {
  const auto layer = match<ops::Linear>(node);
  return layer && layer->is_plain() && node.inputs.size() == 2 && layer->activation == Activation::kNone &&
         is_worth_it(graph.type(node.outputs[0]), graph.type(node.inputs[1]), target);
}

// Matches dy w if it has a single reader.
const Node* plain_product(const Graph& graph, const Uses& uses, ValueId value) {
  const auto product = match_sole<ops::Matmul>(graph, uses, value);
  if (!product || !product->is_plain() || product.num_inputs() != 2 ||
      graph.type(product.input(1)).shape.rank() != 2)
    return nullptr;
  return product->transpose_a || product->transpose_b ? nullptr : product.node;
}

// Replaces only the layer's result, by the first output; swiglu's reader finds the second one through read_beside().
Replacement take_in_swiglu(Rewriter& rewriter, const Uses& uses, const Node& layer,
                           const PassContext& context) {
  const Graph& graph = rewriter.old();
  const Node* reader =
      is_plain_layer(graph, layer, *context.target) ? swiglu_of(graph, uses, layer) : nullptr;
  const Attributes attributes = to_attributes(ops::Linear{.epilogue = ops::LinearEpilogue::kWithSwiglu});
  if (!reader || !runs_natively(context, *layer.op, attributes, graph.input_types(layer)))
    return std::nullopt;
  rewriter.from_nodes({&layer, reader});
  return {{emit_node(*layer.op, attributes, rewriter.map(layer.inputs))[0]}};
}

Replacement read_beside(Rewriter& rewriter, const Node& node) {
  if (node.inputs.size() != 1) return std::nullopt;
  Graph& graph = rewriter.graph();
  const auto maker = match<ops::Linear>(graph, rewriter.map(node.inputs[0]).id);
  if (!maker || maker->epilogue != ops::LinearEpilogue::kWithSwiglu) return std::nullopt;
  return {{graph.handle(maker.node->outputs[1])}};
}

Replacement take_in_gradient(Rewriter& rewriter, const Uses& uses, const Node& node,
                             const PassContext& context) {
  const auto gradient = match<ops::SwigluGrad>(node);
  if (!gradient || node.inputs.size() != 2) return std::nullopt;
  const Graph& graph = rewriter.old();
  const Node* product = plain_product(graph, uses, node.inputs[1]);
  if (!product || !is_worth_it(graph.type(node.inputs[0]), graph.type(product->inputs[1]), *context.target))
    return std::nullopt;
  const Attributes attributes = to_attributes(
      ops::Matmul{.epilogue = ops::MatmulEpilogue::kSwigluGrad, .with_output = gradient->with_output});
  const std::vector<ValueId> inputs = {product->inputs[0], product->inputs[1], node.inputs[0]};
  std::vector<TensorType> types;
  for (ValueId input : inputs) types.push_back(graph.type(input));
  if (!runs_natively(context, *product->op, attributes, types)) return std::nullopt;
  rewriter.from_nodes({product, &node});
  return emit_node(*product->op, attributes, rewriter.map(inputs));
}

}  // namespace

Graph fuse_swiglu_products(const Graph& graph, const PassContext& context) {
  if (!context.target) return graph.share();
  const Uses uses(graph);
  return rewrite(
      graph,
      [&](Rewriter& rewriter, const Node& node) -> Replacement {
        if (is<ops::Linear>(node)) return take_in_swiglu(rewriter, uses, node, context);
        if (is<ops::Swiglu>(node)) return read_beside(rewriter, node);
        return take_in_gradient(rewriter, uses, node, context);
      },
      context.target);
}

}  // namespace genesis::passes
