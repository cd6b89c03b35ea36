#include "passes/distribution/optimizer_shards.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>

#include "passes/core/analysis.h"
#include "passes/core/match.h"
#include "passes/core/update_inputs.h"
#include "schema/ops/collective/collective.h"

namespace genesis::passes {
namespace {

bool is_mean_along_data(const Node& node) {
  const auto reduced = match<ops::AllReduce>(node);
  return reduced && reduced->axis == "data" && reduced->reduction == RankReduction::kMean;
}

// The operand that is no scalar and has the result's shape, where the node works element by element on it alone.
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

// The moments of the updates that can work on parts, and all other states that an entry point reads or writes.
class Finder {
 public:
  Finder(const Model& model, int64_t ranks) : model_(model), ranks_(ranks) {
    for (const auto& entry : model.entries()) look_at(*entry);
    drop_refused();
  }

  std::set<int32_t> moments() const {
    std::set<int32_t> all;
    for (const std::vector<int32_t>& moments : updates_) all.insert(moments.begin(), moments.end());
    return all;
  }

 private:
  void look_at(const Graph& graph) {
    const Uses uses(graph);
    const std::set<ValueId> averaged = averaged_values(graph);
    std::map<int32_t, int> expected;  // how often the updates found read each moment
    for (const Node& node : graph.nodes()) {
      const UpdateInputs inputs = update_inputs(node);
      if (inputs.moments.empty() || !averaged.contains(node.inputs[inputs.gradient])) continue;
      std::vector<int32_t> moments;
      for (size_t k = 0; k < inputs.moments.size(); ++k)
        if (is_private(graph, uses, node, inputs.moments[k], k))
          moments.push_back(state_of(graph, node.inputs[inputs.moments[k]]));
      if (moments.size() < inputs.moments.size()) continue;
      for (const int32_t moment : moments) ++expected[moment];
      updates_.push_back(std::move(moments));
    }
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      const int32_t state = state_of(graph, id);
      if (state >= 0 && uses.count(id) != expected[state]) refused_.insert(state);
    }
    for (const StateUpdate& update : graph.updates())
      if (expected[update.state] == 0) refused_.insert(update.state);
  }

  // Whether nothing but the update reads the moment's old value and its new one becomes the state's.
  bool is_private(const Graph& graph, const Uses& uses, const Node& update, size_t input, size_t k) const {
    const int32_t state = state_of(graph, update.inputs[input]);
    if (state < 0) return false;
    const State& moment = model_.state(state);
    const ValueId next = update.outputs[1 + k];
    const auto is_next = [&](const StateUpdate& u) { return u.state == state && u.value == next; };
    return moment.role == StateRole::kOptimizer && !moment.encoded && plain_format(moment.type.dtype) &&
           is_divided(moment.type, ranks_) && uses.single(next) &&
           std::any_of(graph.updates().begin(), graph.updates().end(), is_next);
  }

  // An update works on parts of all its moments or of none.
  void drop_refused() {
    const auto is_refused = [&](int32_t state) { return refused_.contains(state); };
    const auto first = std::stable_partition(updates_.begin(), updates_.end(), [&](const auto& moments) {
      return std::none_of(moments.begin(), moments.end(), is_refused);
    });
    if (first == updates_.end()) return;
    for (auto update = first; update != updates_.end(); ++update)
      refused_.insert(update->begin(), update->end());
    updates_.erase(first, updates_.end());
    drop_refused();
  }

  const Model& model_;
  const int64_t ranks_;
  std::vector<std::vector<int32_t>> updates_;  // their moments
  std::set<int32_t> refused_;
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

StateStorage find_shards(const Model& model, const Mesh& mesh, int64_t rank) {
  StateStorage storage;
  const int64_t ranks = mesh.size("data");
  if (ranks == 1) return storage;
  const std::set<int32_t> moments = Finder(model, ranks).moments();
  for (int32_t i = 0; i < static_cast<int32_t>(model.states().size()); ++i) {
    const State& state = model.state(i);
    if (moments.contains(i)) {
      const int64_t count = state.type.numel() / ranks;
      storage.groups.push_back(
          {plain_format(state.type.dtype), {i}, {}, Shard{"data", mesh.place(rank, "data") * count, count}});
    } else if (state.role == StateRole::kOptimizer && state.type.numel() > 1) {
      spdlog::debug("zero: every rank keeps the whole of '{}', {}", state.name, state.type.to_string());
    }
  }
  number_parts(storage, model.states().size());
  return storage;
}

}  // namespace genesis::passes
