#include "passes/fusion/passes.h"

#include "passes/core/match.h"
#include "passes/core/native.h"
#include "passes/core/rewriter.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

// Returns whether the layer, or several merged ones, can take a norm as their prologue.
bool may_take_norm(const Matched<ops::Linear>& layers) {
  return layers && !layers->has_norm() && !layers->has_addend &&
         layers->weights <= ops::Linear::kMaxNormedWeights &&
         layers->epilogue != ops::LinearEpilogue::kWithSwiglu;
}

Replacement fuse(Rewriter& rewriter, const Uses& uses, const Node& node, const PassContext& context) {
  const Graph& graph = rewriter.old();
  const auto layers = match<ops::Linear>(node);
  if (!may_take_norm(layers)) return std::nullopt;
  // A reshape between norm and layer is allowed if it keeps the last axis; it moves before the norm.
  const auto moved = match_sole<ops::Reshape>(graph, uses, node.inputs[0]);
  const Shape& shape = graph.type(node.inputs[0]).shape;
  if (moved) {
    const Shape& before = graph.type(moved.input(0)).shape;
    if (before.rank() == 0 || !(before[before.rank() - 1] == shape[shape.rank() - 1])) return std::nullopt;
  }
  const auto norm = match_sole<ops::RmsNorm>(graph, uses, moved ? moved.input(0) : node.inputs[0]);
  if (!norm || norm.num_inputs() != 2 || norm->num_axes != 1) return std::nullopt;
  ops::Linear op = layers.attributes;
  op.prologue = ops::LinearPrologue::kRmsNorm;
  op.eps = norm->eps;
  std::vector<TensorType> inputs = graph.input_types(node);
  inputs.insert(inputs.begin() + 1, graph.type(norm.input(1)));
  if (!runs_natively(context, *node.op, to_attributes(op), inputs)) return std::nullopt;
  rewriter.from_nodes({norm.node, &node});
  const Value x = rewriter.map(norm.input(0));
  std::vector<Value> operands = rewriter.map(node.inputs);
  operands[0] = moved ? reshape(x, shape) : x;
  operands.insert(operands.begin() + 1, rewriter.map(norm.input(1)));
  return emit_node(*node.op, to_attributes(op), operands);
}

}  // namespace

Graph fuse_norm_linear(const Graph& graph, const PassContext& context) {
  if (!context.target) return graph.share();
  const Uses uses(graph);
  return rewrite(
      graph, [&](Rewriter& rewriter, const Node& node) { return fuse(rewriter, uses, node, context); },
      context.target);
}

}  // namespace genesis::passes
