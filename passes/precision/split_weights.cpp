#include "passes/precision/split_weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/precision/weights_as_halves.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

constexpr size_t kUpper = 0, kLower = 1;  // parts of bf16_halves_format

class Splitter {
 public:
  Splitter(const Graph& graph, const PassContext& context)
      : graph_(graph), storage_(*context.storage), rewriter_(graph) {
    for (size_t i = 0; i < storage_.groups.size(); ++i) {
      Dim row(0);
      for (int32_t member : storage_.groups[i].members) {
        places_[member] = {i, row};
        row = row + graph.model().state(member).type.shape[0];
      }
    }
    find_jobs(context.target && context.target->launches_are_dear());
  }

  Graph run() {
    for (const Node& node : graph_.nodes()) {
      rewriter_.begin_nodes_from({&node});
      const Replacement values = visit(node);
      if (!values) join_inputs(node);
      rewriter_.end_nodes_from();
      if (values)
        rewriter_.replace(node, *values);
      else if (!updated_by_.contains(&node))
        rewriter_.copy(node);
      else if (const Job& job = jobs_[updated_by_.at(&node)]; job.nodes.back() == &node)
        emit(job);
    }
    for (const NamedValue& output : graph_.outputs()) join(output.value);
    for (const StateUpdate& update : graph_.updates()) join(update.value);
    for (const auto& [state, place] : places_) rewriter_.drop_update(state);
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  struct Place {
    size_t group;
    Dim row;
  };
  // Updates that become one node.
  struct Job {
    SharedByUpdates shared;
    std::vector<size_t> groups;
    std::vector<const Node*> nodes;  // in the graph's order
  };

  const Place* place_of(ValueId id) const {
    const auto at = places_.find(state_of(graph_, id));
    return at == places_.end() ? nullptr : &at->second;
  }

  // Only updates with a scale are done together, as group_updates does them and for its reason.
  void find_jobs(bool together) {
    const std::map<int32_t, const Node*> updates = adam_updates(graph_);
    for (size_t i = 0; i < storage_.groups.size(); ++i) {
      const std::vector<int32_t>& members = storage_.groups[i].members;
      const auto first = updates.find(members[0]);
      if (first == updates.end()) continue;
      const SharedByUpdates shared(*first->second);
      auto job = jobs_.end();
      if (together && shared.has_scale())
        job = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& j) { return j.shared == shared; });
      if (job == jobs_.end()) job = jobs_.insert(jobs_.end(), Job{shared, {}, {}});
      job->groups.push_back(i);
      for (int32_t member : members) {
        job->nodes.push_back(updates.at(member));
        GENESIS_ASSERT(job->nodes.back() != nullptr);
        updated_by_[job->nodes.back()] = static_cast<size_t>(job - jobs_.begin());
      }
    }
    for (Job& job : jobs_)
      std::sort(job.nodes.begin(), job.nodes.end(),
                [&](const Node* a, const Node* b) { return id_of(graph_, *a) < id_of(graph_, *b); });
    for (const auto& [state, update] : updates) update_of_[state] = update;
  }

  Replacement visit(const Node& node) {
    if (casts_to_bf16(graph_, node))
      if (place_of(node.inputs[0])) return std::vector{part(state_of(graph_, node.inputs[0]), true)};
    if (is<ops::Concat>(node))
      if (const StoredGroup* group = joined_by(node))
        return std::vector{rewriter_.graph().state(group->parts[kUpper])};
    return std::nullopt;
  }

  // The group whose upper half is what the node makes.
  const StoredGroup* joined_by(const Node& node) const {
    const std::vector<int32_t> states = joined_states(graph_, node);
    if (states.empty()) return nullptr;
    const auto at = places_.find(states[0]);
    if (at == places_.end()) return nullptr;
    const StoredGroup& group = storage_.groups[at->second.group];
    return group.members == states ? &group : nullptr;
  }

  // A member's part of a half.
  Value part(int32_t state, bool upper) {
    const Place& place = places_.at(state);
    const StoredGroup& group = storage_.groups[place.group];
    const Value half = rewriter_.graph().state(group.parts[upper ? kUpper : kLower]);
    if (group.members.size() == 1) return half;
    return narrow(half, 0, place.row, graph_.model().state(state).type.shape[0]);
  }

  // What an update reads it reads as halves.
  void join_inputs(const Node& node) {
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (i > 0 || !updated_by_.contains(&node)) join(node.inputs[i]);
  }

  void join(ValueId id) {
    if (!place_of(id) || !joined_.insert(id).second) return;
    const int32_t state = state_of(graph_, id);
    const Value upper = part(state, true), lower = part(state, false);
    rewriter_.replace(id, join_halves(upper, lower));
  }

  void emit(const Job& job) {
    const ops::AdamUpdate& op = job.shared.op;
    const AdamOptions options{.beta1 = op.beta1,
                              .beta2 = op.beta2,
                              .eps = op.eps,
                              .decoupled = op.decoupled,
                              .skip_nonfinite = op.skip_nonfinite};
    std::vector<AdamHalves> operands;
    for (size_t index : job.groups) operands.push_back(operands_of(storage_.groups[index]));
    const std::vector<Value> scalars = rewriter_.map(job.shared.scalars);
    rewriter_.begin_nodes_from(job.nodes);
    const std::vector<AdamHalvesResult> results = adam_update_halves(
        operands, scalars[0], scalars[1], options, job.shared.has_scale() ? scalars[2] : Value());
    rewriter_.end_nodes_from();
    for (size_t i = 0; i < results.size(); ++i) store(storage_.groups[job.groups[i]], results[i]);
  }

  AdamHalves operands_of(const StoredGroup& group) {
    AdamHalves halves{
        rewriter_.graph().state(group.parts[kUpper]), rewriter_.graph().state(group.parts[kLower]), {}};
    for (int32_t member : group.members) {
      const Node& node = *update_of_.at(member);
      const auto op = from_attributes<ops::AdamUpdate>(node.attributes);
      halves.parameters.push_back({{},
                                   rewriter_.map(node.inputs[1]),
                                   rewriter_.map(node.inputs[2]),
                                   rewriter_.map(node.inputs[3]),
                                   op.weight_decay});
    }
    return halves;
  }

  void store(const StoredGroup& group, const AdamHalvesResult& result) {
    rewriter_.graph().add_update(group.parts[kUpper], result.upper);
    rewriter_.graph().add_update(group.parts[kLower], result.lower);
    for (size_t i = 0; i < group.members.size(); ++i)
      rewriter_.replace(*update_of_.at(group.members[i]),
                        {Value(), result.parameters[i].m, result.parameters[i].v});
  }

  const Graph& graph_;
  const StateStorage& storage_;
  Rewriter rewriter_;
  std::map<int32_t, Place> places_;  // by state
  std::map<int32_t, const Node*> update_of_;
  std::vector<Job> jobs_;
  std::map<const Node*, size_t> updated_by_;  // a job
  std::set<ValueId> joined_;
};

}  // namespace

Graph split_weights(const Graph& graph, const PassContext& context) {
  if (!context.storage || context.storage->empty()) return copy_graph(graph, graph.model());
  return Splitter(graph, context).run();
}

}  // namespace genesis::passes
