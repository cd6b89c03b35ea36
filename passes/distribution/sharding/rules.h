// The rules behind factors_of(): one row an op, in files by family. docs/adding-a-sharding-rule.md tells how to add one.
#pragma once

#include <span>
#include <string_view>

#include "passes/core/match.h"
#include "passes/distribution/sharding/factor.h"
#include "schema/ops/index_range.h"

namespace genesis::passes {

// What a rule is given to list the factors of a node: its operands and results, and a list to add to.
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
  // Adds a factor for each of the first `dims` dimensions: that dimension of all these operands and results, which have so many
  // dimensions at least.
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

// A node of which each rank computes a part, cut along one factor.
struct RulePart : FactorPart {
  const Graph& graph;
  const Node& node;
  const Factor& factor;

  template <class Op>
  Op op() const {
    return from_attributes<Op>(node.attributes);
  }
  // Whether an operand is cut in this dimension.
  bool cuts(size_t operand, int dim) const { return has_member(factor, false, operand, dim); }
  // Which of `count` indices this rank has.
  ops::IndexRange range_of(const Dim& count) const {
    return {place * (count.value() / ranks), count.value()};
  }
};

struct ShardingRule {
  std::string_view op;
  void (*list)(RuleContext& context);
  // The attributes of a rank's part, for ops whose attributes have sizes, counts or places that differ in a part; null: the part
  // has the attributes of the whole.
  Attributes (*of_part)(const RulePart& part) = nullptr;
};

std::span<const ShardingRule> layer_rules();     // products, attention, norms, losses, optimizers
std::span<const ShardingRule> movement_rules();  // what moves, makes and sums elements

}  // namespace genesis::passes
