#include "passes/fusion/passes.h"

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

constexpr int64_t kMinClasses = 1024;  // with fewer classes, the logits are no larger than other activations

// Returns the product that makes the logits: linear without bias and activation, or matmul by a transposed matrix; null for
// others. The fused loss computes logits in f32, as a wide linear does.
const Node* projection(const Graph& graph, const Uses& uses, ValueId logits) {
  if (const auto layer = match_sole<ops::Linear>(graph, uses, logits))
    return layer->is_unquantized_product() && layer.num_inputs() == 2 &&
                   layer->activation == Activation::kNone
               ? layer.node
               : nullptr;
  const auto matmul = match_sole<ops::Matmul>(graph, uses, logits);
  if (!matmul || !matmul->is_plain() || matmul.num_inputs() > 2 ||
      graph.type(matmul.input(1)).shape.rank() != 2)
    return nullptr;
  return !matmul->transpose_a && matmul->transpose_b ? matmul.node : nullptr;
}

bool is_fusible(const Graph& graph, const Matched<ops::CrossEntropy>& loss) {
  return loss && loss.num_inputs() == 2 && !loss->with_lse && loss->reduction != Reduction::kNone &&
         is_integer(graph.type(loss.input(1)).dtype);
}

bool has_many_classes(const Graph& graph, const Node& product) {
  const auto classes = graph.type(product.inputs[1]).shape[0].constant();
  return classes && *classes >= kMinClasses;
}

Replacement fuse(Rewriter& rewriter, const Uses& uses, const Node& node) {
  const Graph& graph = rewriter.old();
  const auto loss = match<ops::CrossEntropy>(node);
  if (!is_fusible(graph, loss)) return std::nullopt;
  ValueId logits = node.inputs[0];
  if (const auto reshaped = match_sole<ops::Reshape>(graph, uses, logits)) logits = reshaped.input(0);
  const Node* product = projection(graph, uses, logits);
  if (!product || !has_many_classes(graph, *product)) return std::nullopt;
  // A reshape of the logits becomes a reshape of the rows of x if it keeps the class axis.
  Shape rows = graph.type(node.inputs[0]).shape;
  if (!(rows[rows.rank() - 1] == graph.type(product->inputs[1]).shape[0])) return std::nullopt;
  rows[rows.rank() - 1] = graph.type(product->inputs[1]).shape[1];
  rewriter.from_nodes({product, &node});
  const Value x = reshape(rewriter.map(product->inputs[0]), rows);
  return {{linear_cross_entropy(x, rewriter.map(product->inputs[1]), rewriter.map(node.inputs[1]),
                                loss.attributes)}};
}

}  // namespace

Graph fuse_linear_cross_entropy(const Graph& graph, const PassContext& context) {
  return rewrite(graph, fuse, context.target);
}

}  // namespace genesis::passes
