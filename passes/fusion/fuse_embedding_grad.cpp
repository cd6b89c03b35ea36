#include "passes/fusion/fuse_embedding_grad.h"

#include "passes/core/analysis.h"
#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

// The embedding_grad behind `value`, seen through a cast that only widens it.
const Node* match_gradient(const Graph& graph, const Uses& uses, ValueId value) {
  if (const Node* cast = sole_producer(graph, uses, value, "cast")) {
    const DType from = graph.type(cast->inputs[0]).dtype, to = graph.type(value).dtype;
    if (!is_float(from) || size_of(to) < size_of(from)) return nullptr;
    value = cast->inputs[0];
  }
  const Node* gradient = sole_producer(graph, uses, value, "embedding_grad");
  if (!gradient || from_attributes<ops::EmbeddingGrad>(gradient->attributes).padding_idx >= 0) return nullptr;
  return gradient;
}

Replacement fuse(Rewriter& rewriter, const Uses& uses, const Node& node) {
  const Graph& graph = rewriter.old();
  if (node.op->name() != "add" || !is_float(graph.type(node.outputs[0]).dtype)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const Node* gradient = match_gradient(graph, uses, node.inputs[i]);
    const ValueId table = node.inputs[1 - i];
    if (!gradient || !(graph.type(table) == graph.type(node.outputs[0]))) continue;
    rewriter.from_nodes({gradient, &node});
    const Value indices = rewriter.map(gradient->inputs[0]), dy = rewriter.map(gradient->inputs[1]);
    const Dim count = indices.shape().numel();
    const Value order = reshape(indices, Shape{count});
    const Value rows = cast(reshape(dy, Shape{count, dy.dim(-1)}), graph.type(table).dtype);
    return {{index_add(rewriter.map(table), 0, order, rows)}};
  }
  return std::nullopt;
}

}  // namespace

Graph fuse_embedding_grad(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  return rewrite(
      graph, [&](Rewriter& rewriter, const Node& node) { return fuse(rewriter, uses, node); },
      context.target);
}

}  // namespace genesis::passes
