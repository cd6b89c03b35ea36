// The rules behind factors_of(): one table row per op, in files by family. docs/adding-a-sharding-rule.md tells how to add one.
#pragma once

#include <span>
#include <string_view>

#include "passes/core/match.h"
#include "passes/distribution/sharding/factor.h"
#include "schema/ops/index_range.h"

namespace genesis::passes {

// The argument of a rule: the operands and results of a node, and the list of factors that it adds to.
class RuleContext {
 public:
  RuleContext(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Node& node() const { return node_; }
  template <class Op>
  Op op() const {
    return from_attributes<Op>(node_.attributes);
  }
  size_t num_operands() const { return node_.inputs.size(); }
  size_t num_results() const { return node_.outputs.size(); }
  const Shape& operand(size_t i) const { return graph_.type(node_.inputs[i]).shape; }
  DType operand_dtype(size_t i) const { return graph_.type(node_.inputs[i]).dtype; }
  const Shape& result(size_t i) const { return graph_.type(node_.outputs[i]).shape; }

  // Adds a factor, unless it is empty.
  void add(Factor factor) {
    if (!factor.members.empty()) factors_.push_back(std::move(factor));
  }
  // Adds a factor for each of the first `dims` dimensions. It contains that dimension of all given operands and results, which
  // must have at least `dims` dimensions. `sums`: results that are sums over each of these factors (Factor::sums).
  void add_leading(int dims, std::span<const size_t> operands, std::span<const size_t> results,
                   std::span<const size_t> sums = {});
  // Moves the factors out of the context, after the rule has run.
  std::vector<Factor> take() { return std::move(factors_); }

 private:
  const Graph& graph_;
  const Node& node_;
  std::vector<Factor> factors_;
};

// These return dimension `dim` of the operand or result number `index`; `numbering` and `cuts` are explained at FactorMember.
inline FactorMember operand_dim(size_t index, int dim, int numbering = 0, std::vector<int64_t> cuts = {}) {
  return {false, index, dim, numbering, std::move(cuts)};
}
inline FactorMember result_dim(size_t index, int dim, int numbering = 0, std::vector<int64_t> cuts = {}) {
  return {true, index, dim, numbering, std::move(cuts)};
}

// One rank's shard of a node that is split along one factor.
struct RuleShard : FactorShard {
  const Graph& graph;
  const Node& node;
  const Factor& factor;

  template <class Op>
  Op op() const {
    return from_attributes<Op>(node.attributes);
  }
  // Returns whether an operand is sharded in this dimension.
  bool is_sharded(size_t operand, int dim) const { return has_member(factor, false, operand, dim); }
  // Returns this rank's range of `count` indices, which the ranks divide evenly.
  ops::IndexRange range_of(const Dim& count) const {
    return {place * (count.value() / ranks), count.value()};
  }
};

// The rule of one op.
struct ShardingRule {
  std::string_view op;
  void (*list)(RuleContext& context);  // adds the factors of a node to the context
  // Returns the attributes for a rank's shard, for ops whose attributes contain sizes, counts or positions that differ in a
  // shard; null: the attributes stay the same.
  Attributes (*of_shard)(const RuleShard& shard) = nullptr;
};

std::span<const ShardingRule> layer_rules();     // products, attention, norms, losses, optimizers
std::span<const ShardingRule> movement_rules();  // ops that move, create or sum elements

}  // namespace genesis::passes
