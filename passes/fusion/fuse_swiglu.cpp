#include "passes/fusion/passes.h"

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/swiglu.h"

namespace genesis::passes {
namespace {

// The x of silu(x), written as silu or as x * sigmoid(x), with the nodes that compute it.
struct SiluMatch {
  ValueId x;
  std::vector<const Node*> nodes;
};

std::optional<SiluMatch> match_silu_product(const Graph& graph, const Uses& uses, const Node& node) {
  if (!is<ops::Mul>(node)) return std::nullopt;
  for (const auto& [slope, x] : either_way(node))
    if (const auto sigmoid = match_sole<ops::Sigmoid>(graph, uses, slope); sigmoid && sigmoid.input(0) == x)
      return SiluMatch{x, {sigmoid.node, &node}};
  return std::nullopt;
}

std::optional<SiluMatch> match_silu(const Graph& graph, const Uses& uses, ValueId value) {
  if (const auto silu = match_sole<ops::Silu>(graph, uses, value))
    return SiluMatch{silu.input(0), {silu.node}};
  const auto product = match_sole<ops::Mul>(graph, uses, value);
  return product ? match_silu_product(graph, uses, *product.node) : std::nullopt;
}

Replacement fuse(Rewriter& rewriter, const Uses& uses, const Node& node) {
  const Graph& graph = rewriter.old();
  if (!is<ops::Mul>(node) || !is_float(graph.type(node.outputs[0]).dtype)) return std::nullopt;
  for (const auto& [activated, up] : either_way(node)) {
    auto gate = match_silu(graph, uses, activated);
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
  return rewrite(graph, fuse, context.target);
}

}  // namespace genesis::passes
