#include "passes/distribution/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/distribution/sharding/blocks.h"
#include "passes/distribution/sharding/dimension_groups.h"
#include "passes/distribution/sharding/factors.h"
#include "passes/distribution/vocabulary_parallel_loss.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

constexpr int kWhole = -1;

// Returns the dimension in which the shard is smaller; kWhole if there is none.
int cut_dimension(const Shape& whole, const Shape& shard) {
  for (int dim = 0; dim < whole.rank(); ++dim)
    if (!(whole[dim] == shard[dim])) return dim;
  return kWhole;
}

class Partitioner {
 public:
  Partitioner(const Graph& graph, const PassContext& context)
      : graph_(graph),
        shard_{context.mesh.size(kTensorAxis), context.mesh.place(context.rank, kTensorAxis)},
        groups_(graph),
        rewriter_(graph),
        cut_(graph.values().size(), kWhole),
        blocks_(graph.values().size()) {
    std::map<int32_t, const Shard*> shards;
    for (const StoredGroup& group : context.storage->groups)
      if (group.shard && group.shard->axis == kTensorAxis) {
        shards_[group.members[0]] = group.parts[0];
        shards[group.members[0]] = &*group.shard;
      }
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      if (const auto shard = shards.find(state_of(graph, id)); shard != shards.end())
        read_shard(id, *shard->second);
    }
    for (const StateUpdate& update : graph.updates())
      if (const auto shard = shards.find(update.state); shard != shards.end())
        wanted_.insert(
            groups_.of(update.value, cut_dimension(graph.type(update.value).shape, shard->second->shape)));
  }

  Graph run() {
    for (const Node& node : graph_.nodes()) visit(node);
    for (const NamedValue& output : graph_.outputs()) make_whole(output.value);
    for (const StateUpdate& update : graph_.updates())
      if (const auto shard = shards_.find(update.state); shard != shards_.end()) {
        rewriter_.drop_update(update.state);
        rewriter_.graph().add_update(shard->second, rewriter_.map(update.value));
      }
    return rewriter_.finish();
  }

 private:
  int& cut(ValueId value) { return cut_[static_cast<size_t>(value.index)]; }
  Cuts& blocks(ValueId value) { return blocks_[static_cast<size_t>(value.index)]; }
  bool is_cut(const Node& node) {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return cut(v) != kWhole; });
  }

  // Makes the readers of a sharded state read this rank's shard.
  void read_shard(ValueId id, const Shard& shard) {
    const Value value = rewriter_.graph().state(shards_.at(state_of(graph_, id)));
    const Shape& whole = graph_.type(id).shape;
    const int dim = cut_dimension(whole, value.type().shape);
    cut(id) = dim;
    int64_t outer = 1;
    for (int d = 0; d < dim; ++d) outer *= whole[d].value();
    blocks(id) = equal_cuts(shard.runs / outer);
    wanted_.insert(groups_.of(id, dim));
    rewriter_.replace(id, value);
  }

  void visit(const Node& node) {
    const std::vector<Factor> shared = shared_factors(node);
    if (shared.empty() && !is_cut(node)) return rewriter_.copy(node);
    rewriter_.begin_nodes_from({&node});
    emit(node, shared);
    rewriter_.end_nodes_from();
  }

  void emit(const Node& node, const std::vector<Factor>& shared) {
    if (is<ops::SumSquares>(node)) return emit_sum_squares(node);
    gather_operands(node, shared);
    if (shared.empty() || !has_shards(node, shared)) return emit_whole(node);
    if (const auto loss = match<ops::CrossEntropy>(node))
      rewriter_.replace(node, cross_entropy_of_shards(loss.attributes, rewriter_.map(loss.input(0)),
                                                      rewriter_.map(loss.input(1)), shard_));
    else if (const auto layer = match<ops::LinearCrossEntropy>(node))
      emit_linear_cross_entropy(layer);
    else
      emit_shard(node, shared);
  }

  // Returns the factors along which an operand is sharded, or along which a result must be sharded although all operands are
  // whole.
  std::vector<Factor> shared_factors(const Node& node) {
    std::vector<Factor> shared;
    const bool has_cut = is_cut(node);
    for (Factor& factor : factors_of(graph_, node)) {
      const bool is_shared =
          std::any_of(factor.members.begin(), factor.members.end(), [&](const FactorMember& m) {
            return m.is_result ? !has_cut && is_made_as_shard(node, factor, m)
                               : cut(node.inputs[m.index]) == m.dim;
          });
      if (is_shared && !is_cut_otherwise(node, factor) && fits(node, factor))
        shared.push_back(std::move(factor));
    }
    return shared;
  }
  // Returns whether an operand in the factor is sharded along another dimension, such as the rows of a weight where x is
  // sharded along its columns.
  bool is_cut_otherwise(const Node& node, const Factor& factor) {
    return std::any_of(factor.members.begin(), factor.members.end(), [&](const FactorMember& m) {
      return !m.is_result && cut(node.inputs[m.index]) != kWhole && cut(node.inputs[m.index]) != m.dim;
    });
  }

  // Returns whether the shards of the operands have the blocks that the node composes or takes, and the ranks divide all of
  // them. For a layer whose results are gathered this is not known before, because its readers did not decide that its weight
  // is sharded: such results may be rows of several matrices, or heads that the ranks do not divide.
  bool fits(const Node& node, const Factor& factor) {
    return std::all_of(factor.members.begin(), factor.members.end(), [&](const FactorMember& m) {
      const ValueId value = (m.is_result ? node.outputs : node.inputs)[m.index];
      const Dim& size = graph_.type(value).shape[m.dim];
      if (!size.is_constant()) return false;
      const Cuts needed = cuts_of(m, size.value()), expected = blocks_in(node, factor, m);
      if (!m.is_result && cut(value) == m.dim)
        if (blocks(value) != expected ||
            !std::includes(expected.begin(), expected.end(), needed.begin(), needed.end()) ||
            (composes(factor) && !has_cuts_of(m, expected, size.value())))
          return false;
      return are_divided(size.value(), expected, shard_.ranks);
    });
  }
  // Returns the blocks of a member's shard: those of the operands that count the same things, otherwise what the node needs.
  Cuts blocks_in(const Node& node, const Factor& factor, const FactorMember& member) {
    for (const FactorMember& m : factor.members)
      if (!m.is_result && m.numbering == member.numbering && cut(node.inputs[m.index]) == m.dim)
        return blocks(node.inputs[m.index]);
    const ValueId value = (member.is_result ? node.outputs : node.inputs)[member.index];
    return cuts_of(member, graph_.type(value).shape[member.dim].value());
  }

  // Returns whether the node computes this result as a shard from whole operands, such as the rows of a table's gradient. A
  // uniform value is instead sliced by its reader.
  bool is_made_as_shard(const Node& node, const Factor& factor, const FactorMember& result) {
    const ValueId value = node.outputs[result.index];
    return std::all_of(factor.members.begin(), factor.members.end(),
                       [](const FactorMember& m) { return m.is_result; }) &&
           !uniform_value(graph_, value) && wanted_.contains(groups_.of(value, result.dim));
  }

  // Returns whether every operand in the factors is sharded or can be sliced. If one operand is whole and another sharded, the
  // ranks gather the shard.
  bool has_shards(const Node& node, const std::vector<Factor>& shared) {
    for (const Factor& factor : shared)
      for (const FactorMember& member : factor.members) {
        const ValueId operand = member.is_result ? ValueId{} : node.inputs[member.index];
        if (member.is_result || cut(operand) != kWhole || uniform_value(graph_, operand)) continue;
        return false;
      }
    return true;
  }

  void emit_whole(const Node& node) {
    for (const ValueId input : node.inputs) make_whole(input);
    rewriter_.copy(node);
  }

  void emit_linear_cross_entropy(const Matched<ops::LinearCrossEntropy>& layer) {
    const std::vector<Value> in = rewriter_.map(layer.node->inputs);
    const Value divisor = in.size() > 3 ? in[3] : Value{};
    rewriter_.replace(*layer.node,
                      linear_cross_entropy_of_shards(layer.attributes, in[0], in[1], in[2], divisor, shard_));
    if (layer.node->outputs.size() > 2) cut(layer.node->outputs[2]) = 0;
  }

  void emit_shard(const Node& node, const std::vector<Factor>& shared) {
    Node local{node};
    std::vector<Value> operands = rewriter_.map(node.inputs), once;
    std::vector<bool> is_sum(node.outputs.size());
    for (const Factor& factor : shared) {
      local.attributes = attributes_of_shard(graph_, local, factor, shard_);
      for (const FactorMember& member : factor.members) {
        if (member.is_result) {
          cut(node.outputs[member.index]) = member.dim;
          blocks(node.outputs[member.index]) = blocks_in(node, factor, member);
        } else if (cut(node.inputs[member.index]) == kWhole) {
          operands[member.index] = shard_of_uniform(node, member);
        }
      }
      for (const size_t result : factor.sums) is_sum[result] = true;
      if (!factor.once.empty()) {
        once.assign(operands.begin() + static_cast<ptrdiff_t>(factor.once[0]), operands.end());
        operands.resize(factor.once[0]);
      }
    }
    std::vector<Value> results = emit_node(*node.op, local.attributes, operands);
    for (size_t i = 0; i < results.size(); ++i) {
      if (is_sum[i]) results[i] = all_reduce(results[i], kTensorAxis);
      for (const Value& addend : once) results[i] = results[i] + addend;
    }
    rewriter_.replace(node, results);
  }

  // Returns the shard of a uniform operand, which is the same on every rank.
  Value shard_of_uniform(const Node& node, const FactorMember& member) {
    const ValueId operand = node.inputs[member.index];
    const Dim& size = graph_.type(operand).shape[member.dim];
    return slice(rewriter_.map(operand), member.dim, 0, size.value() / shard_.ranks);
  }

  // Gathers the sharded operands whose sharded dimension is in no shared factor: the node needs them whole.
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
  // Gathers the value from all ranks' shards; nodes that are added from now on read it whole.
  void make_whole(ValueId id) {
    if (cut(id) == kWhole) return;
    const int dim = cut(id);
    const Value shard = rewriter_.map(id);
    const Cuts& cuts = blocks(id);
    if (are_equal_blocks(cuts)) {
      rewriter_.replace(id, gather(shard, dim, static_cast<int64_t>(cuts.size()) + 1));
    } else {
      std::vector<Value> parts;
      int64_t begin = 0;
      const auto add_until = [&](const Fraction& position) {
        const int64_t end = shard.dim(dim).value() * position.above / position.below;
        parts.push_back(gather(slice(shard, dim, begin, end), dim, 1));
        begin = end;
      };
      for (const Fraction& position : cuts) add_until(position);
      add_until({1, 1});
      rewriter_.replace(id, concat(parts, dim));
    }
    cut(id) = kWhole;
  }
  // Returns all ranks' shards of a dimension that is composed of equal blocks.
  Value gather(Value shard, int dim, int64_t blocks) {
    const Value gathered = all_gather(shard, kTensorAxis, shard_.ranks);
    const int before = blocks > 1 ? dim + 1 : dim;  // dimensions before that of the ranks
    if (before == 0) return gathered;
    std::vector<Dim> sizes = shard.shape().dims();
    std::vector<Dim> whole = sizes;
    whole[static_cast<size_t>(dim)] = Dim(sizes[static_cast<size_t>(dim)].value() * shard_.ranks);
    if (blocks > 1) {
      sizes[static_cast<size_t>(dim)] = Dim(sizes[static_cast<size_t>(dim)].value() / blocks);
      sizes.insert(sizes.begin() + dim, Dim(blocks));
    }
    sizes.insert(sizes.begin(), Dim(shard_.ranks));
    std::vector<int64_t> order(sizes.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::rotate(order.begin(), order.begin() + 1, order.begin() + before + 1);
    return reshape(permute(reshape(gathered, Shape(sizes)), order), Shape(whole));
  }

  // Sums the squares of whole operands on every rank, and those of sharded operands over the ranks.
  void emit_sum_squares(const Node& node) {
    std::vector<Value> whole, sharded;
    for (const ValueId input : node.inputs)
      (cut(input) == kWhole ? whole : sharded).push_back(rewriter_.map(input));
    Value sum = all_reduce(emit_node(*node.op, node.attributes, sharded)[0], kTensorAxis);
    if (!whole.empty()) sum = sum + emit_node(*node.op, node.attributes, whole)[0];
    rewriter_.replace(node, {sum});
  }

  const Graph& graph_;
  const FactorShard shard_;
  DimensionGroups groups_;
  std::set<size_t> wanted_;  // groups of dimensions along which states are sharded
  Rewriter rewriter_;
  std::vector<int> cut_;               // by value id: the dimension along which it is sharded, or kWhole
  std::vector<Cuts> blocks_;           // by value id: the blocks of which the rank has shards
  std::map<int32_t, int32_t> shards_;  // by sharded state: the state that holds this rank's shard
};

}  // namespace

Graph partition(const Graph& graph, const PassContext& context) {
  if (context.mesh.size(kTensorAxis) == 1 || !context.storage) return graph.share();
  return Partitioner(graph, context).run();
}

}  // namespace genesis::passes
