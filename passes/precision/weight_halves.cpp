#include "passes/precision/weight_halves.h"

#include <algorithm>
#include <set>

#include "passes/core/adam_updates.h"
#include "passes/core/match.h"
#include "passes/precision/passes.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

bool may_be_halves(const State& state) {
  const int64_t apart = bf16_halves_format().values_apart;
  return state.role == StateRole::kParameter && state.trainable && state.type.dtype == DType::f32 &&
         state.type.shape.rank() > 0 && state.type.numel() > 0 && state.type.numel() % apart == 0;
}

// Returns the adam_update that computes the state's new value from its old one by itself and whose results no other node reads;
// null if there is none.
const Node* sole_update(const Graph& graph, const Uses& uses, const StateUpdate& update) {
  const auto adam = match<ops::AdamUpdate>(graph, update.value);
  if (!adam || !adam->is_single()) return nullptr;
  const Node* node = adam.node;
  const ValueId parameter = parameter_of(*node);
  if (state_of(graph, parameter) != update.state) return nullptr;
  if (std::ranges::count(node->inputs, parameter) > 1) return nullptr;
  for (ValueId output : node->outputs)
    if (uses.count(output) > 1 || !uses.readers(output).empty()) return nullptr;
  return node;
}

class Finder {
 public:
  explicit Finder(const Model& model) : model_(model) {
    for (const auto& entry : model.entries()) {
      const Uses uses(*entry);
      updates_.push_back(adam_updates(*entry));
      for (const auto& [state, update] : updates_.back()) {
        wanted_.insert(state);
        if (update == nullptr || !reads_bf16(*entry, uses, *update)) refused_.insert(state);
      }
    }
    for (int32_t state : refused_) wanted_.erase(state);
  }

  StateStorage find() {
    for (size_t i = 0; i < updates_.size(); ++i)
      if (!updates_[i].empty()) find_joints(*model_.entries()[i]);
    for (int32_t state : wanted_)
      if (!grouped_.contains(state)) groups_.push_back({&bf16_halves_format(), {state}, {}});
    std::ranges::sort(groups_, {}, &StoredGroup::members);
    StateStorage storage{std::move(groups_)};
    number_parts(storage, model_.states().size());
    return storage;
  }

 private:
  // Returns whether the parameter of `update` has other readers and all of them are casts to bf16.
  static bool reads_bf16(const Graph& graph, const Uses& uses, const Node& update) {
    const ValueId parameter = parameter_of(update);
    const std::vector<NodeId>& readers = uses.readers(parameter);
    return readers.size() > 1 && uses.count(parameter) == static_cast<int>(readers.size()) &&
           std::ranges::all_of(readers, [&](NodeId id) {
             return &graph.node(id) == &update || casts_to_bf16(graph, graph.node(id));
           });
  }

  // Finds concat(cast(a), cast(b), ...) along the first axis and makes a group of the states a, b, ...
  void find_joints(const Graph& graph) {
    const Uses uses(graph);
    for (const Node& node : graph.nodes()) {
      const StoredGroup group{&bf16_halves_format(), joined_states(graph, node), {}};
      if (group.members.empty() || uses.count(node.outputs[0]) == 0) continue;
      if (!may_be_group(group)) continue;
      grouped_.insert(group.members.begin(), group.members.end());
      groups_.push_back(group);
    }
  }

  bool may_be_group(const StoredGroup& group) const {
    const std::set<int32_t> distinct(group.members.begin(), group.members.end());
    if (distinct.size() != group.members.size()) return false;
    const auto is_free = [&](int32_t state) { return wanted_.contains(state) && !grouped_.contains(state); };
    return std::ranges::all_of(distinct, is_free) &&
           std::ranges::all_of(updates_, [&](const auto& updates) { return update_as_one(updates, group); });
  }

  static bool update_as_one(const std::map<int32_t, const Node*>& updates, const StoredGroup& group) {
    const auto first = updates.find(group.members[0]);
    return std::ranges::all_of(group.members, [&](int32_t state) {
      const auto other = updates.find(state);
      if (first == updates.end() || other == updates.end()) return first == other;
      return SharedByUpdates(*first->second) == SharedByUpdates(*other->second);
    });
  }

  const Model& model_;
  std::vector<std::map<int32_t, const Node*>> updates_;  // by entry point
  std::set<int32_t> wanted_, refused_, grouped_;
  std::vector<StoredGroup> groups_;
};

}  // namespace

bool casts_to_bf16(const Graph& graph, const Node& node) {
  return is<ops::Cast>(node) && graph.type(node.outputs[0]).dtype == DType::bf16;
}

std::vector<int32_t> joined_states(const Graph& graph, const Node& node) {
  const auto concat = match<ops::Concat>(node);
  if (!concat) return {};
  const int64_t axis = concat->axis;
  if (axis != 0 && axis + graph.type(node.outputs[0]).shape.rank() != 0) return {};
  std::vector<int32_t> states;
  for (ValueId input : node.inputs) {
    const Node* cast = match<ops::Cast>(graph, input).node;
    states.push_back(cast && casts_to_bf16(graph, *cast) ? state_of(graph, cast->inputs[0]) : -1);
  }
  return states;
}

std::map<int32_t, const Node*> adam_updates(const Graph& graph) {
  const Uses uses(graph);
  std::map<int32_t, const Node*> updates;
  for (const StateUpdate& update : graph.updates())
    if (may_be_halves(graph.model().state(update.state)))
      updates[update.state] = sole_update(graph, uses, update);
  return updates;
}

StateStorage find_stored_weights(const Model& model) { return Finder(model).find(); }

bool updates_stored(const Graph& graph, const StateStorage& storage) {
  const std::vector<int32_t> members = storage.members();
  return std::ranges::any_of(graph.updates(), [&](const StateUpdate& update) {
    return std::ranges::binary_search(members, update.state);
  });
}

}  // namespace genesis::passes
