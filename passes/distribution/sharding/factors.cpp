#include "passes/distribution/sharding/factors.h"

#include <algorithm>

#include "passes/distribution/sharding/rules.h"

namespace genesis::passes {
namespace {

const ShardingRule* rule_of(const OpDef& op) {
  for (const std::span<const ShardingRule> rules : {layer_rules(), movement_rules()})
    for (const ShardingRule& rule : rules)
      if (rule.op == op.name()) return &rule;
  return nullptr;
}

// Adds a factor for each dimension of the results, with the operands that are not broadcast along it.
void list_elementwise(RuleContext& context) {
  const Shape& shape = context.result(0);
  for (int dim = 0; dim < shape.rank(); ++dim) {
    Factor factor;
    for (size_t i = 0; i < context.num_results(); ++i) factor.members.push_back(result_dim(i, dim));
    for (size_t i = 0; i < context.num_operands(); ++i) {
      const int at = dim - (shape.rank() - context.operand(i).rank());
      if (at >= 0 && context.operand(i)[at] == shape[dim]) factor.members.push_back(operand_dim(i, at));
    }
    context.add(std::move(factor));
  }
}

}  // namespace

void RuleContext::add_leading(int dims, std::span<const size_t> operands, std::span<const size_t> results,
                              std::span<const size_t> sums) {
  for (int dim = 0; dim < dims; ++dim) {
    Factor factor;
    for (const size_t i : operands) factor.members.push_back(operand_dim(i, dim));
    for (const size_t i : results) factor.members.push_back(result_dim(i, dim));
    factor.sums.assign(sums.begin(), sums.end());
    add(std::move(factor));
  }
}

std::vector<Factor> factors_of(const Graph& graph, const Node& node) {
  RuleContext context(graph, node);
  if (const ShardingRule* rule = rule_of(*node.op))
    rule->list(context);
  else if (node.op->info.elementwise && !node.op->info.random)
    list_elementwise(context);
  return context.take();
}

Attributes attributes_of_shard(const Graph& graph, const Node& node, const Factor& factor,
                               const FactorShard& shard) {
  const ShardingRule* rule = rule_of(*node.op);
  return rule && rule->of_shard ? rule->of_shard({shard, graph, node, factor}) : node.attributes;
}

}  // namespace genesis::passes
