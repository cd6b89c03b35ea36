#include "passes/fusion/passes.h"

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::passes {
namespace {

// Returns whether `linear` can compute the product: x [..., in] times the transpose of weight [out, in].
bool is_linear_product(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 2) return false;
  if (const auto layer = match<ops::Linear>(node))
    return layer->is_plain() && layer->activation == Activation::kNone;
  const auto matmul = match<ops::Matmul>(node);
  return matmul && matmul->is_plain() && !matmul->transpose_a && matmul->transpose_b &&
         graph.type(node.inputs[1]).shape.rank() == 2;
}

// Returns the node that makes x if it is such a product with a single reader; null otherwise.
const Node* sole_product(const Graph& graph, const Uses& uses, ValueId x) {
  const Node* node = uses.single(x) ? producer(graph, x) : nullptr;
  return node && is_linear_product(graph, *node) ? node : nullptr;
}

bool is_bias_of(const Graph& graph, const Node& product, ValueId bias) {
  const TensorType& weight = graph.type(product.inputs[1]);
  return graph.type(bias) == TensorType{weight.dtype, {weight.shape[0]}};
}

Replacement with_bias(Rewriter& rewriter, const Uses& uses, const Node& node) {
  const Graph& graph = rewriter.old();
  if (!is<ops::Add>(node)) return std::nullopt;
  for (const auto& [sum, bias] : either_way(node)) {
    const Node* product = sole_product(graph, uses, sum);
    if (!product || !is_bias_of(graph, *product, bias)) continue;
    if (!(graph.type(node.outputs[0]) == graph.type(product->outputs[0]))) continue;
    rewriter.from_nodes({product, &node});
    return {{linear(rewriter.map(product->inputs[0]), rewriter.map(product->inputs[1]), rewriter.map(bias))}};
  }
  return std::nullopt;
}

std::optional<Activation> activation_of(const Node& node) {
  if (is<ops::Relu>(node)) return Activation::kRelu;
  if (is<ops::Silu>(node)) return Activation::kSilu;
  const auto gelu = match<ops::Gelu>(node);
  if (!gelu) return std::nullopt;
  return gelu->approximate == GeluKind::kErf ? Activation::kGelu : Activation::kGeluTanh;
}

Replacement with_activation(Rewriter& rewriter, const Uses& uses, const Node& node) {
  const auto activation = activation_of(node);
  if (!activation) return std::nullopt;
  const auto layer = match_sole<ops::Linear>(rewriter.old(), uses, node.inputs[0]);
  if (!layer || !is_float(rewriter.old().type(node.outputs[0]).dtype)) return std::nullopt;
  if (!layer->is_plain() || layer->activation != Activation::kNone || layer->has_addend) return std::nullopt;
  rewriter.from_nodes({layer.node, &node});
  const std::vector<Value> inputs = rewriter.map(layer.node->inputs);
  return {{linear(inputs[0], inputs[1], inputs.size() > 2 ? inputs[2] : Value(), *activation)}};
}

}  // namespace

Graph fuse_linear(const Graph& graph, const PassContext& context) {
  return rewrite(graph, with_bias, context.target);
}

Graph fuse_activation(const Graph& graph, const PassContext& context) {
  return rewrite(graph, with_activation, context.target);
}

}  // namespace genesis::passes
