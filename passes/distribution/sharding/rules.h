// The rules behind factors_of(): one row an op, in files by family. docs/adding-a-sharding-rule.md tells how to add one.
#pragma once

#include <span>
#include <string_view>

#include "passes/core/match.h"
#include "passes/distribution/sharding/factor.h"
#include "schema/ops/index_range.h"

namespace genesis::passes {

// A node while its factors are listed.
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
  // Dimension d of each of these operands and results, for the first `dims` dimensions. All have at least as many.
  void add_leading(int dims, std::span<const size_t> operands, std::span<const size_t> results,
                   std::span<const size_t> sums = {});
  std::vector<Factor> take() { return std::move(factors_); }

 private:
  const Graph& graph_;
  const Node& node_;
  std::vector<Factor> factors_;
};

inline FactorMember operand_dim(size_t index, int dim, int part = 0, std::vector<int64_t> cuts = {}) {
  return {false, index, dim, part, std::move(cuts)};
}
inline FactorMember result_dim(size_t index, int dim, int part = 0, std::vector<int64_t> cuts = {}) {
  return {true, index, dim, part, std::move(cuts)};
}

// A node that computes a part of a factor.
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
  // This rank's of `count` indices.
  ops::IndexRange range_of(const Dim& count) const {
    return {place * (count.value() / ranks), count.value()};
  }
};

struct ShardingRule {
  std::string_view op;
  void (*list)(RuleContext& context);
  // Where sizes, counts or places among the attributes are those of a part; null: they stay.
  Attributes (*of_part)(const RulePart& part) = nullptr;
};

std::span<const ShardingRule> layer_rules();     // products, attention, norms, losses, optimizers
std::span<const ShardingRule> movement_rules();  // what moves, makes and sums elements

}  // namespace genesis::passes
