#include "passes/fusion/passes.h"

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

// Matches the embedding_grad that makes `value`, possibly through a cast that does not narrow it.
Matched<ops::EmbeddingGrad> match_gradient(const Graph& graph, const Uses& uses, ValueId value) {
  if (const auto cast = match_sole<ops::Cast>(graph, uses, value)) {
    const DType from = graph.type(cast.input(0)).dtype;
    if (!is_float(from) || size_of(cast->dtype) < size_of(from)) return {};
    value = cast.input(0);
  }
  return match_sole<ops::EmbeddingGrad>(graph, uses, value);
}

Replacement fuse(Rewriter& rewriter, const Uses& uses, const Node& node) {
  const Graph& graph = rewriter.old();
  if (!is<ops::Add>(node) || !is_float(graph.type(node.outputs[0]).dtype)) return std::nullopt;
  for (const auto& [sum, table] : either_way(node)) {
    const auto gradient = match_gradient(graph, uses, sum);
    if (!gradient || gradient->padding_idx >= 0) continue;
    if (!(graph.type(table) == graph.type(node.outputs[0]))) continue;
    rewriter.from_nodes({gradient.node, &node});
    const Value indices = rewriter.map(gradient.input(0)), dy = rewriter.map(gradient.input(1));
    const Dim count = indices.shape().numel();
    const Value order = reshape(indices, Shape{count});
    const Value rows = cast(reshape(dy, Shape{count, dy.dim(-1)}), graph.type(table).dtype);
    const ops::IndexAdd add{{0}, gradient->part};
    return {{emit(add, {rewriter.map(table), order, rows})}};
  }
  return std::nullopt;
}

}  // namespace

Graph fuse_embedding_grad(const Graph& graph, const PassContext& context) {
  return rewrite(graph, fuse, context.target);
}

}  // namespace genesis::passes
