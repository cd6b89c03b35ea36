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

  void add(Factor factor) {
    if (!factor.members.empty()) factors_.push_back(std::move(factor));
  }
  // Adds a factor for each of the first `dims` dimensions. It contains that dimension of all given operands and results, which
  // must have at least `dims` dimensions.
  void add_leading(int dims, std::span<const size_t> operands, std::span<const size_t> results,
                   std::span<const size_t> sums = {});
  std::vector<Factor> take() { return std::move(factors_); }

 private:
  const Graph& graph_;
  const Node& node_;
  std::vector<Factor> factors_;
};

inline FactorMember operand_dim(size_t index, int dim, int numbering = 0, std::vector<int64_t> cuts = {}) {
  return {false, index, dim, numbering, std::move(cuts)};
}
inline FactorMember result_dim(size_t index, int dim, int numbering = 0, std::vector<int64_t> cuts = {}) {
  return {true, index, dim, numbering, std::move(cuts)};
}

// A node that each rank computes a shard of, along one factor.
struct RuleShard : FactorShard {
  const Graph& graph;
  const Node& node;
  const Factor& factor;

  template <class Op>
  Op op() const {
    return from_attributes<Op>(node.attributes);
  }
  // Returns whether an operand is sharded in this dimension.
  bool cuts(size_t operand, int dim) const { return has_member(factor, false, operand, dim); }
  // Returns the range of `count` indices that this rank has.
  ops::IndexRange range_of(const Dim& count) const {
    return {place * (count.value() / ranks), count.value()};
  }
};

struct ShardingRule {
  std::string_view op;
  void (*list)(RuleContext& context);
  // Returns the attributes for a rank's shard, for ops whose attributes contain sizes, counts or positions that differ in a
  // shard; null: the attributes stay the same.
  Attributes (*of_shard)(const RuleShard& shard) = nullptr;
};

std::span<const ShardingRule> layer_rules();     // products, attention, norms, losses, optimizers
std::span<const ShardingRule> movement_rules();  // ops that move, create or sum elements

}  // namespace genesis::passes
