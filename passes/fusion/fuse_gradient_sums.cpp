#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/passes.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/batch_norm.h"

namespace genesis::passes {
namespace {

// Only channels that are last have kernels that gain from it.
Replacement take_both(Rewriter& rewriter, const Uses& uses, const Node& node) {
  const Graph& graph = rewriter.old();
  const auto norm = match<ops::BatchNormGrad>(node);
  if (!norm || !norm->relu || !norm->has_addend || !norm->channels_last || norm->two_gradients)
    return std::nullopt;
  const auto sum = match_sole<ops::Add>(graph, uses, norm.input(1));
  if (!sum) return std::nullopt;
  for (const ValueId part : sum.node->inputs)
    if (!(graph.type(part) == graph.type(norm.input(1)))) return std::nullopt;
  rewriter.from_nodes({sum.node, &node});
  std::vector<Value> inputs = rewriter.map(node.inputs);
  inputs[1] = rewriter.map(sum.input(0));
  inputs.push_back(rewriter.map(sum.input(1)));
  Attributes attributes = node.attributes;
  attributes.set("two_gradients", true);
  return emit_node(*node.op, attributes, inputs);
}

}  // namespace

Graph fuse_gradient_sums(const Graph& graph, const PassContext& context) {
  return rewrite(graph, take_both, context.target);
}

}  // namespace genesis::passes
