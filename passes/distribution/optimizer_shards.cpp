#include "passes/distribution/optimizer_shards.h"

#include <algorithm>
#include <map>

#include "passes/core/analysis.h"
#include "passes/core/match.h"
#include "passes/core/update_inputs.h"
#include "schema/graph/state_cuts.h"
#include "schema/messages/log.h"
#include "schema/ops/collective/collective.h"
#include "schema/ranks/mesh_axes.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis::passes {
namespace {

bool is_mean_along_data(const Node& node) {
  const auto reduced = match<ops::AllReduce>(node);
  return reduced && reduced->axis == kDataAxis && reduced->reduction == RankReduction::kMean;
}

// Returns the node's only operand that is not a scalar if the node is elementwise and this operand has the shape of the result.
std::optional<ValueId> sole_operand(const Graph& graph, const Node& node) {
  if (!node.op->info.elementwise || node.outputs.size() != 1) return std::nullopt;
  std::optional<ValueId> sole;
  for (const ValueId input : node.inputs) {
    const Shape& shape = graph.type(input).shape;
    if (shape.rank() == 0) continue;
    if (sole || !(shape == graph.type(node.outputs[0]).shape)) return std::nullopt;
    sole = input;
  }
  return sole;
}

// Maps states of the model to what graphs of this rank read: slices, if there are some.
class Slices {
 public:
  Slices(const Model& model, const StateStorage& storage) : model_(model) {
    for (const StoredGroup& group : storage.groups)
      if (is_slice(group)) slices_[group.members[0]] = &group;
  }

  // Returns true if ranks along "data" have different shards of the state, since they have different experts.
  bool is_of_experts(int32_t state) const {
    return has(state) && slices_.at(state)->shard->axis == kExpertShardAxis;
  }

  int32_t of(int32_t state) const { return has(state) ? slices_.at(state)->parts[0] : state; }
  TensorType type(int32_t state) const {
    const TensorType& whole = model_.state(state).type;
    return has(state) ? TensorType{whole.dtype, slices_.at(state)->shard->shape} : whole;
  }
  std::vector<int32_t> of(std::vector<int32_t> states) const {
    for (int32_t& state : states) state = of(state);
    return states;
  }
  // Returns whether the states can be stored one behind the other in parts of this format, with a range of each on every rank.
  bool fit_together(const std::vector<int32_t>& states, const StateFormat& format, int64_t ranks) const {
    return are_alike(states) && std::all_of(states.begin(), states.end(), [&](int32_t state) {
             return type(state).numel() % (ranks * format.values_apart) == 0;
           });
  }

 private:
  bool are_alike(const std::vector<int32_t>& states) const {
    return std::all_of(states.begin(), states.end(), [&](int32_t state) {
      Shape first = type(states[0]).shape;
      first[0] = type(state).shape[0];
      return has(state) == has(states[0]) && first == type(state).shape;
    });
  }
  bool has(int32_t state) const { return slices_.contains(state); }

  const Model& model_;
  std::map<int32_t, const StoredGroup*> slices_;  // by state
};

// Finds the updates that can work on shards.
class Finder {
 public:
  Finder(const Model& model, const Slices& slices, int64_t ranks)
      : model_(model), slices_(slices), ranks_(ranks) {
    for (const auto& entry : model.entries()) look_at(*entry);
    drop_refused();
  }

  std::set<int32_t> moments() const {
    std::set<int32_t> all;
    for (const Update& update : updates_) all.insert(update.moments.begin(), update.moments.end());
    return all;
  }
  // Returns the weights that only such updates write.
  std::set<int32_t> updated_in_parts() const {
    std::map<int32_t, int> left = writes_;
    std::set<int32_t> all;
    for (const Update& update : updates_)
      if (update.parameter >= 0 && --left[update.parameter] == 0) all.insert(update.parameter);
    return all;
  }
  bool is_updated(int32_t state) const { return writes_.contains(state); }

 private:
  struct Update {
    int32_t parameter;  // the state that its first result is written to; -1: none
    std::vector<int32_t> moments;
  };

  void look_at(const Graph& graph) {
    const Uses uses(graph);
    const std::set<ValueId> averaged = averaged_values(graph);
    std::map<int32_t, int> expected;  // number of times that the updates found read each moment
    for (const Node& node : graph.nodes()) {
      const UpdateInputs inputs = update_inputs(node);
      if (inputs.moments.empty() || !averaged.contains(node.inputs[inputs.gradient])) continue;
      std::vector<int32_t> moments;
      for (size_t k = 0; k < inputs.moments.size(); ++k)
        if (is_private(graph, uses, node, inputs.moments[k], k))
          moments.push_back(state_of(graph, node.inputs[inputs.moments[k]]));
      if (moments.size() < inputs.moments.size()) continue;
      for (const int32_t moment : moments) ++expected[moment];
      updates_.push_back({parameter_of(graph, node, inputs), std::move(moments)});
    }
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      const int32_t state = state_of(graph, id);
      if (state >= 0 && uses.count(id) != expected[state]) refused_.insert(state);
    }
    for (const StateUpdate& update : graph.updates()) {
      if (expected[update.state] == 0) refused_.insert(update.state);
      ++writes_[update.state];
    }
  }

  static int32_t parameter_of(const Graph& graph, const Node& update, const UpdateInputs& inputs) {
    const int32_t state = state_of(graph, update.inputs[inputs.parameter]);
    const auto is_written = [&](const StateUpdate& u) {
      return u.state == state && u.value == update.outputs[0];
    };
    const bool writes = std::any_of(graph.updates().begin(), graph.updates().end(), is_written);
    return state >= 0 && writes ? state : -1;
  }

  // Returns whether only the update reads the moment's old value and the new one becomes the state's value.
  bool is_private(const Graph& graph, const Uses& uses, const Node& update, size_t input, size_t k) const {
    const int32_t state = state_of(graph, update.inputs[input]);
    if (state < 0 || slices_.is_of_experts(state)) return false;
    const State& moment = model_.state(state);
    const ValueId next = update.outputs[1 + k];
    const auto is_next = [&](const StateUpdate& u) { return u.state == state && u.value == next; };
    return moment.role == StateRole::kOptimizer && shard_format(moment) &&
           is_divided(slices_.type(state), ranks_) && uses.single(next) &&
           std::any_of(graph.updates().begin(), graph.updates().end(), is_next);
  }

  // Removes updates with a refused moment: an update works on shards of all its moments or of none.
  void drop_refused() {
    const auto is_refused = [&](int32_t state) { return refused_.contains(state); };
    const auto first = std::stable_partition(updates_.begin(), updates_.end(), [&](const Update& update) {
      return std::none_of(update.moments.begin(), update.moments.end(), is_refused);
    });
    if (first == updates_.end()) return;
    for (auto update = first; update != updates_.end(); ++update)
      refused_.insert(update->moments.begin(), update->moments.end());
    updates_.erase(first, updates_.end());
    drop_refused();
  }

  const Model& model_;
  const Slices& slices_;
  const int64_t ranks_;
  std::vector<Update> updates_;
  std::set<int32_t> refused_;
  std::map<int32_t, int> writes_;  // by state: number of its updates in all entry points
};

// Decides what a rank keeps, group by group.
class Storage {
 public:
  Storage(const Model& model, const Slices& slices, const Mesh& mesh, int64_t rank, int zero)
      : model_(model),
        slices_(slices),
        ranks_(mesh.size(kDataAxis)),
        place_(mesh.place(rank, kDataAxis)),
        zero_(zero),
        found_(model, slices, ranks_),
        in_parts_(found_.updated_in_parts()) {}

  StateStorage find(const StateStorage& stored) {
    for (const StoredGroup& group : stored.groups) add_stored(group);
    const std::set<int32_t> moments = found_.moments();
    for (int32_t i = 0; i < static_cast<int32_t>(model_.states().size()); ++i) {
      const State& state = model_.state(i);
      if (moments.contains(i) || (is_shared_weight(i) && !stored_.contains(i)))
        add({shard_format(state), {i}, {}});
      else if (state.role == StateRole::kOptimizer && state.type.numel() > 1)
        log_debug("zero: every rank keeps the whole of '{}', {}", state.name, state.type.to_string());
    }
    number_parts(storage_, model_.states().size());
    return std::move(storage_);
  }

 private:
  bool is_shared_weight(int32_t index) const {
    const State& state = model_.state(index);
    return zero_ >= 3 && !slices_.is_of_experts(index) && state.role == StateRole::kParameter &&
           shard_format(state) && state.type.shape.rank() > 1 && is_divided(slices_.type(index), ranks_) &&
           (in_parts_.contains(index) || !found_.is_updated(index));
  }

  // Keeps groups of which no member is updated in shards. Leaves out groups of which only some members are, and groups of
  // slices that cannot be stored one behind the other.
  void add_stored(const StoredGroup& group) {
    const std::vector<int32_t>& members = group.members;
    const auto in_parts = [&](int32_t state) { return in_parts_.contains(state); };
    const bool whole = std::none_of(members.begin(), members.end(), in_parts);
    if (!whole && !std::all_of(members.begin(), members.end(), in_parts)) return;
    if (!slices_.fit_together(members, *group.format, whole ? 1 : ranks_)) return;
    stored_.insert(members.begin(), members.end());
    if (whole) return storage_.groups.push_back({group.format, slices_.of(members), {}});
    if (!std::all_of(members.begin(), members.end(), [&](int32_t s) { return is_shared_weight(s); }))
      return add({group.format, members, {}, {}, *group.format->rounded_part() + 1});
    for (const int32_t member : members) add({group.format, {member}, {}});
  }

  void add(StoredGroup group) {
    int64_t values = 0;
    for (const int32_t member : group.members) values += slices_.type(member).numel();
    group.members = slices_.of(group.members);
    group.shard = Shard{kDataAxis, place_ * (values / ranks_), values / ranks_};
    storage_.groups.push_back(std::move(group));
  }

  const Model& model_;
  const Slices& slices_;
  const int64_t ranks_, place_;
  const int zero_;
  const Finder found_;
  const std::set<int32_t> in_parts_;
  std::set<int32_t> stored_;
  StateStorage storage_;
};

}  // namespace

std::set<ValueId> averaged_values(const Graph& graph) {
  std::set<ValueId> averaged;
  for (const Node& node : graph.nodes()) {
    if (is_mean_along_data(node)) averaged.insert(node.outputs.begin(), node.outputs.end());
    const std::optional<ValueId> sole = sole_operand(graph, node);
    if (sole && averaged.contains(*sole)) averaged.insert(node.outputs[0]);
  }
  return averaged;
}

bool is_divided(const TensorType& type, int64_t ranks) {
  return type.shape.is_constant() && type.numel() > 0 && type.numel() % ranks == 0;
}

StateStorage find_shards(const Model& model, const Mesh& mesh, int64_t rank, int zero,
                         const StateStorage& stored, const StateStorage& ahead) {
  if (mesh.size(kDataAxis) == 1) return stored;
  const Slices slices(model, ahead);
  return Storage(model, slices, mesh, rank, zero).find(stored);
}

StateStorage stored_slices(const Model& model, const StateStorage& stored, const StateStorage& ahead) {
  const Slices slices(model, ahead);
  StateStorage storage;
  for (const StoredGroup& group : stored.groups)
    if (slices.fit_together(group.members, *group.format, 1))
      storage.groups.push_back({group.format, slices.of(group.members), {}});
  return storage;
}

bool is_weight_shard(const Model& model, const StoredGroup& group) {
  return group.shard && group.shard->axis == kDataAxis && group.whole_parts == 0 &&
         group.members.size() == 1 && model.state(group.members[0]).role == StateRole::kParameter;
}

}  // namespace genesis::passes
