#include "passes/simplify/simplify.h"

#include "passes/core/analysis.h"
#include "passes/core/rewriter.h"
#include "passes/simplify/passes.h"

namespace genesis::passes {
namespace {

constexpr int kMaxChain =
    16;  // limit of successive rewrites of one node, far above real chains: it ends a cycle of rules

std::vector<SimplifyRule> all_rules() {
  std::vector<SimplifyRule> rules;
  for (const auto family : {arithmetic_rules(), layout_rules(), product_rules()})
    rules.insert(rules.end(), family.begin(), family.end());
  return rules;
}

Value try_rules(const Candidate& candidate, const PassContext& context) {
  static const std::vector<SimplifyRule> rules = all_rules();
  for (const SimplifyRule& rule : rules) {
    const Value value = rule.apply(candidate);
    if (!value || !(value.type() == candidate.type)) continue;
    if (context.on_rewrite) context.on_rewrite(rule.name, value.name());
    return value;
  }
  return {};
}

// Applies rules until none matches: a rule may give a node that another rule simplifies further.
Value simplify_fully(Value value, size_t first_new_node, const PassContext& context) {
  Graph& graph = *value.graph;
  for (int i = 0; i < kMaxChain; ++i) {
    const NodeId id = graph.value(value.id).producer;
    if (id.index < static_cast<int32_t>(first_new_node)) break;
    const Node node = graph.node(id);
    std::vector<Value> inputs;
    for (ValueId input : node.inputs) inputs.push_back(graph.handle(input));
    const TensorType type = value.type();
    const Value next = try_rules({graph, *node.op, node.attributes, inputs, type}, context);
    if (!next) break;
    value = next;
  }
  return value;
}

}  // namespace

Graph simplify(const Graph& graph, const PassContext& context) {
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) -> Replacement {
    if (node.outputs.size() != 1) return std::nullopt;
    const size_t first_new_node = rewriter.graph().nodes().size();
    const std::vector<Value> inputs = rewriter.map(node.inputs);
    const TensorType& type = graph.type(node.outputs[0]);
    const Value value = try_rules({rewriter.graph(), *node.op, node.attributes, inputs, type}, context);
    if (!value) return std::nullopt;
    return {{simplify_fully(value, first_new_node, context)}};
  });
}

}  // namespace genesis::passes
