#include "passes/distribution/partition.h"

#include <algorithm>
#include <map>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/distribution/sharding/factors.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

constexpr int kWhole = -1;

// The dimension in which a part is smaller.
int cut_dimension(const Shape& whole, const Shape& part) {
  for (int dim = 0; dim < whole.rank(); ++dim)
    if (!(whole[dim] == part[dim])) return dim;
  return kWhole;
}

class Partitioner {
 public:
  Partitioner(const Graph& graph, const PassContext& context)
      : graph_(graph),
        ranks_(context.mesh.size("tensor")),
        rewriter_(graph),
        cut_(graph.values().size(), kWhole) {
    for (const StoredGroup& group : context.storage->groups)
      if (group.shard && group.shard->axis == "tensor") parts_[group.members[0]] = group.parts[0];
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      const auto part = parts_.find(state_of(graph, id));
      if (part == parts_.end()) continue;
      const Value value = rewriter_.graph().state(part->second);
      cut(id) = cut_dimension(graph.type(id).shape, value.type().shape);
      rewriter_.replace(id, value);
    }
  }

  Graph run() {
    for (const Node& node : graph_.nodes()) visit(node);
    for (const NamedValue& output : graph_.outputs()) make_whole(output.value);
    for (const StateUpdate& update : graph_.updates())
      if (const auto part = parts_.find(update.state); part != parts_.end()) {
        rewriter_.drop_update(update.state);
        rewriter_.graph().add_update(part->second, rewriter_.map(update.value));
      }
    return rewriter_.finish();
  }

 private:
  int& cut(ValueId value) { return cut_[static_cast<size_t>(value.index)]; }
  bool is_cut(const Node& node) {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return cut(v) != kWhole; });
  }

  void visit(const Node& node) {
    if (!is_cut(node)) return rewriter_.copy(node);
    rewriter_.begin_nodes_from({&node});
    if (is<ops::SumSquares>(node))
      emit_sum_squares(node);
    else
      emit_part(node);
    rewriter_.end_nodes_from();
  }

  // The factors along which an operand is cut.
  std::vector<Factor> shared_factors(const Node& node) {
    std::vector<Factor> shared;
    for (Factor& factor : factors_of(graph_, node)) {
      const bool is_shared = std::any_of(
          factor.members.begin(), factor.members.end(),
          [&](const FactorMember& m) { return !m.is_result && cut(node.inputs[m.index]) == m.dim; });
      if (is_shared) shared.push_back(std::move(factor));
    }
    return shared;
  }

  void emit_part(const Node& node) {
    const std::vector<Factor> shared = shared_factors(node);
    gather_operands(node, shared);
    Node local{node};
    std::vector<Value> operands = rewriter_.map(node.inputs), once;
    std::vector<bool> is_sum(node.outputs.size());
    for (const Factor& factor : shared) {
      local.attributes = attributes_of_part(local, factor, ranks_);
      for (const FactorMember& member : factor.members) {
        if (member.is_result)
          cut(node.outputs[member.index]) = member.dim;
        else if (cut(node.inputs[member.index]) == kWhole)
          operands[member.index] = part_of_uniform(node, member);
      }
      for (const size_t result : factor.sums) is_sum[result] = true;
      if (!factor.once.empty()) {
        once.assign(operands.begin() + static_cast<ptrdiff_t>(factor.once[0]), operands.end());
        operands.resize(factor.once[0]);
      }
    }
    std::vector<Value> results = emit_node(*node.op, local.attributes, operands);
    for (size_t i = 0; i < results.size(); ++i) {
      if (is_sum[i]) results[i] = all_reduce(results[i], "tensor");
      for (const Value& addend : once) results[i] = results[i] + addend;
    }
    rewriter_.replace(node, results);
  }

  // Of numbers that are all the same every part is the same.
  Value part_of_uniform(const Node& node, const FactorMember& member) {
    const ValueId operand = node.inputs[member.index];
    const Dim& size = graph_.type(operand).shape[member.dim];
    if (!uniform_value(graph_, operand))
      fail("node '{}' ({}): its operand {} is whole and another is cut", node.name, node.op->name(),
           member.index);
    return slice(rewriter_.map(operand), member.dim, 0, size.value() / ranks_);
  }

  // What no factor names as it is cut is wanted whole.
  void gather_operands(const Node& node, const std::vector<Factor>& shared) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int dim = cut(node.inputs[i]);
      const bool is_named =
          dim == kWhole || std::any_of(shared.begin(), shared.end(), [&](const Factor& factor) {
            return has_member(factor, false, i, dim);
          });
      if (!is_named) make_whole(node.inputs[i]);
    }
  }
  // From the parts of all ranks, for all that reads it from now on.
  void make_whole(ValueId id) {
    if (cut(id) == kWhole) return;
    const int dim = cut(id);
    const Value part = rewriter_.map(id);
    Value whole = all_gather(part, "tensor", ranks_);
    if (dim > 0) {
      std::vector<Dim> by_rank = part.shape().dims();
      by_rank.insert(by_rank.begin(), Dim(ranks_));
      std::vector<int64_t> order(by_rank.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
      std::rotate(order.begin(), order.begin() + 1, order.begin() + dim + 1);
      whole = reshape(permute(reshape(whole, Shape(by_rank)), order), graph_.type(id).shape);
    }
    rewriter_.replace(id, whole);
    cut(id) = kWhole;
  }

  // Those that are whole, and those that are cut, whose sums are added up.
  void emit_sum_squares(const Node& node) {
    std::vector<Value> whole, parts;
    for (const ValueId input : node.inputs)
      (cut(input) == kWhole ? whole : parts).push_back(rewriter_.map(input));
    Value sum = all_reduce(emit_node(*node.op, node.attributes, parts)[0], "tensor");
    if (!whole.empty()) sum = sum + emit_node(*node.op, node.attributes, whole)[0];
    rewriter_.replace(node, {sum});
  }

  const Graph& graph_;
  const int64_t ranks_;
  Rewriter rewriter_;
  std::vector<int> cut_;              // by value: the dimension of which this rank has a part
  std::map<int32_t, int32_t> parts_;  // by state of which it has a part: the state that is the part
};

}  // namespace

Graph partition(const Graph& graph, const PassContext& context) {
  if (context.mesh.size("tensor") == 1 || !context.storage) return copy_graph(graph, graph.model());
  return Partitioner(graph, context).run();
}

}  // namespace genesis::passes
