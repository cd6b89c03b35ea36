#include "passes/fusion/passes.h"

#include <unordered_set>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/norm.h"

namespace genesis::passes {
namespace {

// The addition that is the only reader of dx, and its other operand.
struct Match {
  const Node* add = nullptr;
  ValueId residual;
};

// Returns whether the value is computed before `node` runs.
bool is_made_before(const Graph& graph, ValueId value, const Node& node) {
  const Node* from = producer(graph, value);
  return !from || id_of(graph, *from).index < id_of(graph, node).index;
}

std::optional<Match> find_match(const Graph& graph, const Uses& uses, const Node& node) {
  if (!is<ops::RmsNormGrad, ops::LayerNormGrad>(node)) return std::nullopt;
  const auto residual_there = node.attributes.find("has_residual");
  if (residual_there && std::get<bool>(*residual_there)) return std::nullopt;
  const ValueId dx = node.outputs[0];
  if (!uses.single(dx) || uses.readers(dx).size() != 1) return std::nullopt;
  const Node& add = graph.node(uses.readers(dx)[0]);
  if (!is<ops::Add>(add)) return std::nullopt;
  const ValueId residual = add.inputs[0] == dx ? add.inputs[1] : add.inputs[0];
  if (residual == node.inputs[0] || residual == node.inputs[1])
    return std::nullopt;  // dx may be written there
  if (!(graph.type(residual) == graph.type(dx)) || !is_made_before(graph, residual, node))
    return std::nullopt;
  return Match{&add, residual};
}

void emit_norm(Rewriter& rewriter, const Node& node, const Match& match) {
  std::vector<Value> inputs = rewriter.map(node.inputs);
  inputs.push_back(rewriter.map(match.residual));
  Attributes attributes = node.attributes;
  attributes.set("has_residual", true);
  rewriter.begin_nodes_from({&node, match.add});
  const std::vector<Value> outputs = emit_node(*node.op, attributes, inputs);
  rewriter.end_nodes_from();
  rewriter.replace(node, outputs);
  rewriter.replace(*match.add, {outputs[0]});
}

}  // namespace

Graph fuse_norm_residual(const Graph& graph, const PassContext&) {
  const Uses uses(graph);
  Rewriter rewriter(graph);
  std::unordered_set<const Node*> done;  // additions that norm gradients have absorbed
  for (const Node& node : graph.nodes()) {
    if (done.contains(&node)) continue;
    if (const auto found = find_match(graph, uses, node)) {
      emit_norm(rewriter, node, *found);
      done.insert(found->add);
    } else {
      rewriter.copy(node);
    }
  }
  return rewriter.finish();
}

}  // namespace genesis::passes
