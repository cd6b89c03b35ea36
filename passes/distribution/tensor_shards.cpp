#include "passes/distribution/tensor_shards.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "passes/core/match.h"
#include "passes/core/update_inputs.h"
#include "passes/distribution/expert_shards.h"
#include "passes/distribution/sharding/blocks.h"
#include "passes/distribution/sharding/disjoint_sets.h"
#include "passes/distribution/sharding/factors.h"
#include "passes/distribution/sharding/sharding_groups.h"
#include "schema/core/moment_codes.h"
#include "schema/messages/log.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/index.h"
#include "schema/ranks/mesh_axes.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis::passes {
namespace {

// Returns the weight, possibly cast, of a layer whose results may be gathered; -1 if there is none or it is no state.
int32_t weight_of(const Graph& graph, const Node& node) {
  const auto layer = match<ops::Linear>(node);
  if (!layer || !layer->is_unquantized_product() || layer.num_inputs() != 2) return -1;
  ValueId weight = layer.input(1);
  while (const auto cast = match<ops::Cast>(graph, weight)) weight = cast.input(0);
  return state_of(graph, weight);
}

bool keeps_codes(const Node& node) {
  const auto adam = match<ops::AdamUpdate>(node);
  return adam && adam->has_codes();
}

// The dimensions of states in one group: pairs of a state and the number of its dimension.
using StateDims = std::vector<std::pair<int32_t, int>>;

// Holds all dimensions of all values and states of a model and decides which must be sharded together. Results of the layers
// with the weights `gathered` need not be sharded if these weights are.
class Dimensions {
 public:
  Dimensions(const Model& model, int64_t ranks, const std::set<int32_t>& gathered,
             const std::set<int32_t>& of_experts)
      : model_(model), ranks_(ranks), gathered_(gathered), of_experts_(of_experts) {
    for (const State& state : model.states()) first_of_state_.push_back(add(state.type.shape, state.name));
    for (const auto& entry : model.entries()) {
      add_values(*entry);
      for (const Node& node : entry->nodes()) {
        join_factors(*entry, node);
        mark_scales(*entry, node);
      }
      for (const StateUpdate& update : entry->updates()) join_update(*entry, update);
      for (const NamedValue& output : entry->outputs()) refuse_whole(*entry, output.value, "it is an output");
    }
    for (const auto& entry : model.entries())
      for (const Node& node : entry->nodes()) check_cuts(*entry, node);
    check_sizes();
    refuse_states();
  }

  // Returns the dimensions of states by group, for the groups that can be sharded, or for those that only codes of moments keep whole.
  std::map<size_t, StateDims> groups_of_states(bool refused_for_codes = false) {
    std::map<size_t, StateDims> groups;
    for (int32_t state = 0; state < static_cast<int32_t>(model_.states().size()); ++state)
      for (int dim = 0; dim < model_.state(state).type.shape.rank(); ++dim) {
        const size_t group = group_of_state(state, dim);
        if (refused_for_codes ? groups_.refused_for_codes_alone(group) : !groups_.is_refused(group))
          groups[group].emplace_back(state, dim);
        else if (!refused_for_codes)
          log_debug("tensor: dimension {} of '{}' stays whole: {}", dim, model_.state(state).name,
                    reason(group));
      }
    return groups;
  }
  // Returns the reason why codes of moments keep a group whole.
  std::string reason_of_codes() const {
    return fmt::format("moments=8bit keeps blocks of {}, which {} ranks would cut: train with f32 moments",
                       kMomentBlock, ranks_);
  }
  size_t group_of_state(int32_t state, int dim) { return groups_.of(state_dim(state, dim)); }
  size_t group_of(const Graph& graph, ValueId value, int dim) {
    return groups_.of(value_dim(graph, value, dim));
  }
  // Returns the elements per row that ranks exchange in an entry point if they shard this group: the minimum over the entry
  // points that exchange any.
  int64_t exchanged(size_t group) {
    std::map<const Graph*, int64_t> by_graph;
    for (const SumOverRanks& sum : sums_)
      if (groups_.of(sum.dimension) == group) by_graph[sum.graph] += sum.elements;
    int64_t least = 0;
    for (const auto& [graph, elements] : by_graph)
      if (least == 0 || elements < least) least = elements;
    return least;
  }
  // Returns whether the ranks look up rows of a sharded table.
  bool is_table(size_t group) {
    return std::any_of(sums_.begin(), sums_.end(), [&](const SumOverRanks& sum) {
      return sum.is_lookup && groups_.of(sum.dimension) == group;
    });
  }
  // Returns why the largest weight stays whole.
  std::string a_reason() {
    const State* largest = nullptr;
    size_t group = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(model_.states().size()); ++i) {
      const State& state = model_.state(i);
      if (state.role != StateRole::kParameter || state.type.shape.rank() == 0) continue;
      if (largest && largest->type.numel() >= state.type.numel()) continue;
      largest = &state;
      group = group_of_state(i, 0);
    }
    return largest ? fmt::format("of its largest weight, {}", reason(group)) : "it has no weights";
  }
  // Returns the number of equal blocks that a state's dimension is composed of.
  int64_t pieces(int32_t state, int dim) {
    return static_cast<int64_t>(cuts_[classes_.find(state_dim(state, dim))].size()) + 1;
  }

 private:
  struct Dimension {
    Dim size;
    std::string_view name;  // name of the value or state
  };

  size_t add(const Shape& shape, std::string_view name) {
    const size_t first = dimensions_.size();
    for (const Dim& size : shape) {
      dimensions_.push_back({size, name});
      cuts_.emplace_back();
      of_scales_.push_back(false);
      classes_.add();
      groups_.add();
    }
    return first;
  }

  void add_values(const Graph& graph) {
    std::vector<size_t>& first = first_of_value_[&graph];
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      const int32_t state = state_of(graph, id);
      first.push_back(state >= 0 ? first_of_state_[static_cast<size_t>(state)]
                                 : add(graph.type(id).shape, graph.value(id).name));
      const ValueKind kind = graph.value(id).kind;
      if (state < 0 && kind != ValueKind::kNode) refuse_whole(graph, id, "it is no result of a node");
    }
  }

  size_t state_dim(int32_t state, int dim) const {
    return first_of_state_[static_cast<size_t>(state)] + static_cast<size_t>(dim);
  }
  size_t value_dim(const Graph& graph, ValueId value, int dim) const {
    return first_of_value_.at(&graph)[static_cast<size_t>(value.index)] + static_cast<size_t>(dim);
  }
  size_t member_dim(const Graph& graph, const Node& node, const FactorMember& member) const {
    const auto& values = member.is_result ? node.outputs : node.inputs;
    return value_dim(graph, values[member.index], member.dim);
  }
  std::string reason(size_t group) {
    return groups_.refused_for_codes_alone(group) ? reason_of_codes() : groups_.reason(group);
  }
  void refuse(size_t dimension, const std::string& why) {
    groups_.refuse(dimension, "'" + std::string(dimensions_[dimension].name) + "': " + why);
  }
  void refuse_whole(const Graph& graph, ValueId value, const std::string& why) {
    for (int dim = 0; dim < graph.type(value).shape.rank(); ++dim)
      if (!(graph.type(value).shape[dim] == Dim(1))) refuse(value_dim(graph, value, dim), why);
  }

  void join_classes(size_t a, size_t b) {
    const size_t one = classes_.find(a), other = classes_.find(b);
    if (one == other) return;
    Cuts all = std::move(cuts_[one]);
    all.merge(cuts_[other]);
    classes_.join(one, other);
    cuts_[classes_.find(one)] = std::move(all);
  }

  void join_factors(const Graph& graph, const Node& node) {
    std::set<size_t> named;
    const bool is_gathered = gathered_.contains(weight_of(graph, node));
    for (const Factor& factor : factors_of(graph, node)) {
      note_sums(graph, node, factor);
      if (is_gathered && has_member(factor, false, 1, 0)) {
        for (const FactorMember& member : factor.members) named.insert(member_dim(graph, node, member));
        continue;
      }
      std::map<int, size_t> first_of_numbering;
      const size_t first = member_dim(graph, node, factor.members[0]);
      for (const FactorMember& member : factor.members) {
        const size_t dimension = member_dim(graph, node, member);
        named.insert(dimension);
        groups_.join(first, dimension);
        join_classes(first_of_numbering.emplace(member.numbering, dimension).first->second, dimension);
        if (!member.cuts.empty())
          cuts_[classes_.find(dimension)].merge(cuts_of(member, dimensions_[dimension].size.value()));
      }
    }
    for (const auto* values : {&node.inputs, &node.outputs})
      for (const ValueId value : *values)
        for (int dim = 0; dim < graph.type(value).shape.rank(); ++dim) {
          const size_t dimension = value_dim(graph, value, dim);
          if (named.contains(dimension) || dimensions_[dimension].size == Dim(1)) continue;
          if (keeps_codes(node))
            groups_.refuse_for_codes(dimension);
          else
            refuse(dimension, fmt::format("node '{}' ({}) needs it whole", node.name, node.op->name()));
        }
  }

  // Marks the scales that an update reads and the new ones, which are results 1 + k for moments k.
  void mark_scales(const Graph& graph, const Node& node) {
    if (!keeps_codes(node)) return;
    const std::vector<size_t> moments = update_inputs(node).moments;
    for (size_t k = 0; k < moments.size(); ++k)
      for (const ValueId value : {node.inputs[moments[k]], node.outputs[1 + k]})
        for (int dim = 0; graph.type(value).dtype != DType::u8 && dim < graph.type(value).shape.rank(); ++dim)
          of_scales_[value_dim(graph, value, dim)] = true;
  }

  // Records the sums over ranks; counts the elements of one row, since the number of rows is unknown.
  void note_sums(const Graph& graph, const Node& node, const Factor& factor) {
    for (const size_t result : factor.sums) {
      int64_t elements = 1;
      for (const Dim& size : graph.type(node.outputs[result]).shape) elements *= size.constant().value_or(1);
      const bool is_lookup = is<ops::Embedding>(node) && has_member(factor, false, 1, 0);
      sums_.push_back({&graph, member_dim(graph, node, factor.members[0]), elements, is_lookup});
    }
  }

  void join_update(const Graph& graph, const StateUpdate& update) {
    for (int dim = 0; dim < model_.state(update.state).type.shape.rank(); ++dim) {
      const size_t a = state_dim(update.state, dim), b = value_dim(graph, update.value, dim);
      groups_.join(a, b);
      join_classes(a, b);
    }
  }

  // Checks that the blocks of which a node composes a dimension agree with all other nodes.
  void check_cuts(const Graph& graph, const Node& node) {
    for (const Factor& factor : factors_of(graph, node)) {
      if (!composes(factor)) continue;
      for (const FactorMember& member : factor.members) {
        const size_t dimension = member_dim(graph, node, member);
        const Dim& size = dimensions_[dimension].size;
        if (size.is_constant() && !has_cuts_of(member, cuts_[classes_.find(dimension)], size.value()))
          refuse(dimension,
                 fmt::format("node '{}' ({}) composes it in another way", node.name, node.op->name()));
      }
    }
  }

  void check_sizes() {
    for (size_t i = 0; i < dimensions_.size(); ++i) {
      const Dim& size = dimensions_[i].size;
      if (!size.is_constant())
        refuse(i, "its size is not known");
      else if (are_divided(size.value(), cuts_[classes_.find(i)], ranks_))
        continue;
      else if (of_scales_[i])
        groups_.refuse_for_codes(i);
      else
        refuse(i, fmt::format("{} ranks do not divide {}{}", ranks_, size.value(),
                              advice_on_ranks(ranks_, size.value())));
    }
  }

  // Checks that no block is split between ranks; blocks lie along the last dimension.
  void check_blocks(int32_t index) {
    const State& state = model_.state(index);
    const int dim = state.type.shape.rank() - 1;
    const auto pieces = static_cast<int64_t>(cuts_[classes_.find(state_dim(index, dim))].size()) + 1;
    const int64_t size = state.type.shape[dim].value(), block = state.encoded.format->block;
    if (size % (pieces * ranks_ * block) == 0) return;
    std::vector<int64_t> would_do;
    for (int64_t ranks = 2; ranks <= size / (pieces * block); ++ranks)
      if (size % (pieces * ranks * block) == 0) would_do.push_back(ranks);
    refuse(state_dim(index, dim),
           fmt::format(
               "{} ranks would cut axis {} of {} into shards of {}, and {} keeps blocks of {}; {}", ranks_,
               dim, state.type.to_string(), static_cast<double>(size) / static_cast<double>(ranks_),
               state.encoded.format->name, block,
               would_do.empty() ? "no number of ranks would do"
                                : fmt::format("along 'tensor' would do {}", fmt::join(would_do, ", "))));
  }

  // Refuses dimensions of states that cannot be sharded: other dtypes, split blocks, and unequal blocks side by side.
  void refuse_states() {
    for (int32_t i = 0; i < static_cast<int32_t>(model_.states().size()); ++i) {
      const State& state = model_.state(i);
      for (int dim = 0; dim < state.type.shape.rank(); ++dim) {
        if (of_experts_.contains(i)) refuse(state_dim(i, dim), "ranks along 'expert' share its experts");
        if (!plain_format(state.type.dtype))
          refuse(state_dim(i, dim), "it is no tensor of numbers that ranks share");
        if (state.encoded && dim + 1 == state.type.shape.rank()) check_blocks(i);
        if (!are_equal_blocks(cuts_[classes_.find(state_dim(i, dim))]))
          refuse(state_dim(i, dim), "its pieces are not equal");
      }
    }
  }

  const Model& model_;
  const int64_t ranks_;
  const std::set<int32_t> gathered_, of_experts_;
  DisjointSets classes_;
  ShardingGroups groups_;
  std::vector<Dimension> dimensions_;
  std::vector<size_t> first_of_state_;
  std::map<const Graph*, std::vector<size_t>> first_of_value_;
  std::vector<Cuts> cuts_;       // for each class, at the dimension that stands for it
  std::vector<bool> of_scales_;  // by dimension: whether it is one of scales of codes
  struct SumOverRanks {
    const Graph* graph;
    size_t dimension;
    int64_t elements;
    bool is_lookup;
  };
  std::vector<SumOverRanks> sums_;
};

// A weight is worth its own exchange if it has at least 1 / kMinShare of all elements.
constexpr int64_t kMinShare = 64;

class Chooser {
 public:
  // `warns` says whether weights that only codes of moments keep whole are worth a line.
  Chooser(const Model& model, const Mesh& mesh, const Target& target, bool warns)
      : model_(model), target_(target), ranks_(mesh.size(kTensorAxis)) {
    if (mesh.size(kExpertAxis) > 1) of_experts_ = states_of_experts(model);
    for (const State& state : model.states())
      if (state.role == StateRole::kParameter && state.type.shape.is_constant())
        all_weights_ += state.type.numel();
    choose({});
    if (const std::set<int32_t> gathered = weights_worth_gathering(); !gathered.empty()) choose(gathered);
    const std::string refused = a_weight_refused_by_codes();
    if (chosen_.empty() && of_experts_.empty())
      fail("{} ranks along 'tensor' cannot share any layer of this model: {}", ranks_,
           refused.empty() ? dimensions_->a_reason()
                           : fmt::format("'{}': {}", refused, dimensions_->reason_of_codes()));
    if (!refused.empty() && warns)
      log_warning("tensor: every rank keeps whole weights, such as '{}': {}", refused,
                  dimensions_->reason_of_codes());
  }

  StateStorage storage(int64_t place) {
    StateStorage storage;
    for (const auto& [group, states] : chosen_)
      for (const auto& [state, dim] : states)
        storage.groups.push_back(
            {plain_format(model_.state(state).type.dtype), {state}, {}, shard(state, dim, place)});
    std::sort(storage.groups.begin(), storage.groups.end(),
              [](const StoredGroup& a, const StoredGroup& b) { return a.members < b.members; });
    number_parts(storage, model_.states().size());
    return storage;
  }

 private:
  void choose(const std::set<int32_t>& gathered) {
    dimensions_.emplace(model_, ranks_, gathered, of_experts_);
    chosen_.clear();
    weights_.clear();
    for (auto& [group, states] : dimensions_->groups_of_states()) {
      if (!is_worth_sharding(group, states)) continue;
      weights_[group] = weights_of(states);
      chosen_[group] = std::move(states);
    }
    for (const auto& entry : model_.entries()) drop_conflicts(*entry);
  }

  bool is_worth_sharding(size_t group, const StateDims& states) {
    const int64_t weights = weights_of(states);
    if (weights == 0 || weights < target_.products_per_exchanged * dimensions_->exchanged(group))
      return false;
    return !dimensions_->is_table(group) || weights * kMinShare >= all_weights_;
  }

  // Returns the name of a weight that would be sharded if moments were no codes; empty if there is none.
  std::string a_weight_refused_by_codes() {
    for (const auto& [group, states] : dimensions_->groups_of_states(true))
      if (is_worth_sharding(group, states))
        for (const auto& [state, dim] : states)
          if (model_.state(state).role == StateRole::kParameter && !is_sharded(state))
            return model_.state(state).name;
    return "";
  }
  bool is_sharded(int32_t state) {
    for (int dim = 0; dim < model_.state(state).type.shape.rank(); ++dim)
      if (chosen_.contains(dimensions_->group_of_state(state, dim))) return true;
    return false;
  }

  int64_t weights_of(const StateDims& states) const {
    int64_t weights = 0;
    for (const auto& [state, dim] : states)
      if (model_.state(state).role == StateRole::kParameter) weights += model_.state(state).type.numel();
    return weights;
  }

  // A value can be sharded along one dimension only: the group with fewer weights stays whole.
  void drop_conflicts(const Graph& graph) {
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId value{static_cast<int32_t>(i)};
      std::optional<size_t> before;
      for (int dim = 0; dim < graph.type(value).shape.rank(); ++dim) {
        const size_t group = dimensions_->group_of(graph, value, dim);
        if (!chosen_.contains(group)) continue;
        if (before) {
          const size_t fewer = weights_[group] < weights_[*before] ? group : *before;
          chosen_.erase(fewer);
          if (fewer == group) continue;
        }
        before = group;
      }
    }
  }

  // Returns large weights that stay whole, of layers whose results are needed whole, such as a head: each rank computes a shard
  // of the results, which is gathered. If the model trains, the readers of their gradients decide whether this is possible.
  std::set<int32_t> weights_worth_gathering() {
    std::set<int32_t> weights;
    for (const auto& entry : model_.entries())
      for (const Node& node : entry->nodes())
        if (const int32_t state = weight_of(*entry, node); state >= 0 && is_worth_gathering(state))
          weights.insert(state);
    return weights;
  }
  bool is_worth_gathering(int32_t index) {
    const State& state = model_.state(index);
    return !is_sharded(index) && state.role == StateRole::kParameter && plain_format(state.type.dtype) &&
           state.type.numel() * kMinShare >= all_weights_ &&
           state.type.shape[1].value() >= target_.products_per_gathered;
  }

  Shard shard(int32_t index, int dim, int64_t place) {
    Shape shape = model_.state(index).type.shape;
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < shape.rank(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : shape[d].value();
    const int64_t pieces = dimensions_->pieces(index, dim), size = shape[dim].value() / ranks_;
    const int64_t count = size / pieces * inner;
    shape[dim] = Dim(size);
    return {kTensorAxis, place * count, count, outer * pieces, shape};
  }

  const Model& model_;
  const Target& target_;
  const int64_t ranks_;
  std::set<int32_t> of_experts_;  // states that ranks along "expert" share
  std::optional<Dimensions> dimensions_;
  std::map<size_t, StateDims> chosen_;  // dimensions of states by group
  std::map<size_t, int64_t> weights_;   // number of elements, by group
  int64_t all_weights_ = 0;             // number of elements of all weights
};

}  // namespace

StateStorage find_tensor_shards(const Model& model, const Mesh& mesh, int64_t rank, const Target& target) {
  if (mesh.size(kTensorAxis) == 1) return {};
  return Chooser(model, mesh, target, rank == 0).storage(mesh.place(rank, kTensorAxis));
}

}  // namespace genesis::passes
