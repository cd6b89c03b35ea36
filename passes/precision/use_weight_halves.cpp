#include "passes/precision/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/core/adam_updates.h"
#include "passes/core/match.h"
#include "passes/core/stored_values.h"
#include "passes/precision/weight_halves.h"
#include "schema/graph/cost_model.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

size_t rounded_part(const StoredGroup& group) { return *group.format->rounded_part(); }

// Returns whether the group is trained in parts and its rounded part is not sharded. Readers of other groups have already been
// given gathered values.
bool is_trained(const StoredGroup& group) {
  return group.format->rounded_part() && !group.is_shard(rounded_part(group));
}

class PartsRewriter {
 public:
  PartsRewriter(const Graph& graph, const PassContext& context)
      : graph_(graph), mesh_(context.mesh), storage_(*context.storage), rewriter_(graph) {
    for (size_t i = 0; i < storage_.groups.size(); ++i) {
      if (!is_trained(storage_.groups[i])) continue;
      Dim row(0);
      for (int32_t member : storage_.groups[i].members) {
        memberships_[member] = {i, row};
        row = row + graph.model().state(member).type.shape[0];
      }
    }
    find_jobs(context.target && seconds_saved_by_one_step_for(*context.target, 2) > 0);
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
    for (const auto& [state, membership] : memberships_) rewriter_.drop_update(state);
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  struct Membership {
    size_t group;
    Dim row;
  };
  // A set of updates that become one node.
  struct Job {
    SharedByUpdates shared;
    std::vector<size_t> groups;
    std::vector<const Node*> updates;  // ordered by group
    std::vector<const Node*> nodes;    // the same updates in the graph's order
  };

  const Membership* membership_of(ValueId id) const {
    const auto at = memberships_.find(state_of(graph_, id));
    return at == memberships_.end() ? nullptr : &at->second;
  }

  // Combines only updates with a scale, for the same reason as group_updates.
  void find_jobs(bool together) {
    const std::map<int32_t, const Node*> updates = adam_updates(graph_);
    for (size_t i = 0; i < storage_.groups.size(); ++i) {
      if (!is_trained(storage_.groups[i])) continue;
      const std::vector<int32_t>& members = storage_.groups[i].members;
      const auto first = updates.find(members[0]);
      if (first == updates.end()) continue;
      const SharedByUpdates shared(*first->second);
      auto job = jobs_.end();
      if (together && shared.op.has_scale)
        job = std::ranges::find_if(jobs_, [&](const Job& j) {
          return j.shared == shared && storage_.groups[j.groups[0]].format == storage_.groups[i].format;
        });
      if (job == jobs_.end()) job = jobs_.insert(jobs_.end(), Job{shared, {}, {}, {}});
      job->groups.push_back(i);
      for (int32_t member : members) {
        job->updates.push_back(updates.at(member));
        GENESIS_ASSERT(job->updates.back() != nullptr);
        updated_by_[job->updates.back()] = static_cast<size_t>(job - jobs_.begin());
      }
    }
    for (Job& job : jobs_) {
      job.nodes = job.updates;
      std::ranges::sort(job.nodes, {}, [&](const Node* node) { return id_of(graph_, *node); });
    }
  }

  Replacement visit(const Node& node) {
    if (casts_to_bf16(graph_, node))
      if (membership_of(node.inputs[0])) return std::vector{rounded(state_of(graph_, node.inputs[0]))};
    if (is<ops::Concat>(node))
      if (const StoredGroup* group = joined_by(node))
        return std::vector{rewriter_.graph().state(group->parts[rounded_part(*group)])};
    return std::nullopt;
  }

  // Returns the group whose rounded part is the node's result; null if there is none.
  const StoredGroup* joined_by(const Node& node) const {
    const std::vector<int32_t> states = joined_states(graph_, node);
    if (states.empty()) return nullptr;
    const auto at = memberships_.find(states[0]);
    if (at == memberships_.end()) return nullptr;
    const StoredGroup& group = storage_.groups[at->second.group];
    return group.members == states ? &group : nullptr;
  }

  const StoredGroup& group_of(int32_t state) const { return storage_.groups[memberships_.at(state).group]; }
  Value rounded(int32_t state) { return rows(state, rounded_part(group_of(state))); }

  // Returns a member's rows in one part of its group.
  Value rows(int32_t state, size_t part) {
    const StoredGroup& group = group_of(state);
    const Value all = rewriter_.graph().state(group.parts[part]);
    if (group.is_shard(part)) return gathered(state, group, all);
    if (group.members.size() == 1) return all;
    return narrow(all, 0, memberships_.at(state).row, graph_.model().state(state).type.shape[0]);
  }

  // Gathers a member's values; this rank has a range of the values of each member.
  Value gathered(int32_t state, const StoredGroup& group, Value ranges) {
    const int64_t ranks = mesh_.size(group.shard->axis);
    int64_t first = 0;
    for (const int32_t member : group.members) {
      if (member == state) break;
      first += graph_.model().state(member).type.numel() / ranks;
    }
    const Shape& shape = graph_.model().state(state).type.shape;
    const Value range = narrow(ranges, 0, Dim(first), Dim(shape.numel().value() / ranks));
    return reshape(all_gather(range, group.shard->axis, ranks), shape);
  }

  // Joins the parts of the node's inputs, except that an update reads its parameter in parts.
  void join_inputs(const Node& node) {
    for (ValueId input : node.inputs)
      if (!updated_by_.contains(&node) || input != parameter_of(node)) join(input);
  }

  void join(ValueId id) {
    if (!membership_of(id) || !joined_.insert(id).second) return;
    const int32_t state = state_of(graph_, id);
    const StateFormat& format = *group_of(state).format;
    const auto part = [&](size_t i) { return rows(state, i); };
    rewriter_.replace(id, value_of_parts(format, part, format.meant));
  }

  void emit(const Job& job) {
    const size_t groups = job.groups.size(), parts = storage_.groups[job.groups[0]].parts.size();
    ParameterHolders holders{std::vector<Value>(parts * groups)};
    for (size_t i = 0; i < groups; ++i) {
      const StoredGroup& group = storage_.groups[job.groups[i]];
      for (size_t part = 0; part < parts; ++part)
        holders.values[part * groups + i] = rewriter_.graph().state(group.parts[part]);
      holders.held.push_back(static_cast<int64_t>(group.members.size()));
    }
    rewriter_.begin_nodes_from(job.nodes);
    const std::vector<Value> results = update_together(rewriter_, job.shared, job.updates, holders);
    rewriter_.end_nodes_from();
    for (size_t i = 0; i < groups; ++i)
      for (size_t part = 0; part < parts; ++part)
        rewriter_.graph().add_update(storage_.groups[job.groups[i]].parts[part], results[part * groups + i]);
    const size_t n = job.updates.size();
    for (size_t k = 0; k < n; ++k) {
      std::vector<Value> values = results_of_update(results, holders.values.size(), n, k);
      values.insert(values.begin(), Value());  // the parameter is in the parts
      rewriter_.replace(*job.updates[k], values);
    }
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const StateStorage& storage_;
  Rewriter rewriter_;
  std::map<int32_t, Membership> memberships_;  // by state
  std::vector<Job> jobs_;
  std::map<const Node*, size_t> updated_by_;  // index in jobs_
  std::set<ValueId> joined_;
};

}  // namespace

Graph use_weight_halves(const Graph& graph, const PassContext& context) {
  if (!context.storage || context.storage->empty()) return graph.share();
  return PartsRewriter(graph, context).run();
}

}  // namespace genesis::passes
