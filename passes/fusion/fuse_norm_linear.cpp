#include "passes/fusion/fuse_norm_linear.h"

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/norm_linear.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

constexpr size_t kMaxInputs = 18;  // of a norm_linear

// What a node asks of a norm_linear; empty where it is no such layer.
std::optional<ops::NormLinear> layers_of(const Node& node) {
  ops::NormLinear op;
  if (const auto merged = match<ops::MergedLinear>(node)) {
    op.has_bias = merged->has_bias;
    op.activation = merged->activation;
  } else if (is<ops::LinearSwiglu>(node)) {
    op.swiglu = true;
    op.has_bias = node.inputs.size() > 3;
  } else if (const auto linear = match<ops::Linear>(node); linear && !linear->has_addend) {
    op.activation = linear->activation;
    op.has_bias = node.inputs.size() > 2;
  } else {
    return std::nullopt;
  }
  return node.inputs.size() + 1 <= kMaxInputs ? std::optional(op) : std::nullopt;
}

bool has_few_rows(const TensorType& x, const PassContext& context) {
  if (!context.target || !x.shape.is_constant() || x.shape.rank() == 0) return false;
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.shape.rank(); ++i) rows *= x.shape[i].value();
  return rows <= context.target->merge_linear_rows;
}

Replacement fuse(Rewriter& rewriter, const Uses& uses, const Node& node, const PassContext& context) {
  const Graph& graph = rewriter.old();
  auto op = layers_of(node);
  if (!op || !has_few_rows(graph.type(node.inputs[0]), context)) return std::nullopt;
  // A reshape between the two keeps rows as they are, or moves away.
  const auto moved = match_sole<ops::Reshape>(graph, uses, node.inputs[0]);
  const Shape& shape = graph.type(node.inputs[0]).shape;
  if (moved) {
    const Shape& before = graph.type(moved.input(0)).shape;
    if (before.rank() == 0 || !(before[before.rank() - 1] == shape[shape.rank() - 1])) return std::nullopt;
  }
  const auto norm = match_sole<ops::RmsNorm>(graph, uses, moved ? moved.input(0) : node.inputs[0]);
  if (!norm || norm.num_inputs() != 2 || norm->num_axes != 1) return std::nullopt;
  op->eps = norm->eps;
  rewriter.from_nodes({norm.node, &node});
  Value x = rewriter.map(norm.input(0));
  if (moved) x = reshape(x, shape);
  std::vector<Value> weights, biases;
  const size_t layers = (node.inputs.size() - 1) / (op->has_bias ? 2 : 1);
  for (size_t i = 1; i < node.inputs.size(); ++i)
    (i <= layers ? weights : biases).push_back(rewriter.map(node.inputs[i]));
  return norm_linear(x, rewriter.map(norm.input(1)), weights, biases, *op);
}

}  // namespace

Graph fuse_norm_linear(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  return rewrite(
      graph, [&](Rewriter& rewriter, const Node& node) { return fuse(rewriter, uses, node, context); },
      context.target);
}

}  // namespace genesis::passes
