#include "passes/fusion/fuse_swiglu.h"

#include "passes/core/analysis.h"
#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/swiglu.h"

namespace genesis::passes {
namespace {

// The x of silu(x), spelled as the op or as x * sigmoid(x), with the nodes that make it.
struct SiluMatch {
  ValueId x;
  std::vector<const Node*> nodes;
};

std::optional<SiluMatch> match_silu_product(const Graph& graph, const Uses& uses, const Node& node) {
  if (node.op->name() != "mul") return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const Node* sigmoid = sole_producer(graph, uses, node.inputs[i], "sigmoid");
    if (sigmoid && sigmoid->inputs[0] == node.inputs[1 - i])
      return SiluMatch{sigmoid->inputs[0], {sigmoid, &node}};
  }
  return std::nullopt;
}

std::optional<SiluMatch> match_silu(const Graph& graph, const Uses& uses, ValueId value) {
  if (const Node* node = sole_producer(graph, uses, value, "silu")) return SiluMatch{node->inputs[0], {node}};
  const Node* node = sole_producer(graph, uses, value, "mul");
  return node ? match_silu_product(graph, uses, *node) : std::nullopt;
}

Replacement fuse(Rewriter& rewriter, const Uses& uses, const Node& node) {
  const Graph& graph = rewriter.old();
  if (node.op->name() != "mul" || !is_float(graph.type(node.outputs[0]).dtype)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    auto gate = match_silu(graph, uses, node.inputs[i]);
    const ValueId up = node.inputs[1 - i];
    if (!gate || !(graph.type(gate->x) == graph.type(up))) continue;
    gate->nodes.push_back(&node);
    rewriter.from_nodes(gate->nodes);
    return {{swiglu(rewriter.map(gate->x), rewriter.map(up))}};
  }
  const auto silu_match = match_silu_product(graph, uses, node);
  if (!silu_match) return std::nullopt;
  rewriter.from_nodes(silu_match->nodes);
  return {{silu(rewriter.map(silu_match->x))}};
}

}  // namespace

Graph fuse_swiglu(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  return rewrite(
      graph, [&](Rewriter& rewriter, const Node& node) { return fuse(rewriter, uses, node); },
      context.target);
}

}  // namespace genesis::passes
