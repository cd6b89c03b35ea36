#include "passes/grouping/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/memory/make_plan.h"
#include "schema/graph/cost_model.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/cast_group.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

// A node that one result of the group replaces.
struct Member {
  const Node* node;            // a cast, or a concatenation of casts
  std::vector<ValueId> parts;  // the states that are cast
};

struct Group {
  DType dtype;  // dtype of the results
  std::vector<Member> members;
  int64_t bytes = 0;
};

// Returns whether one more cast in the group pays. It saves a launch, but readers wait for the whole group, except for the
// share of its time that runs beside products which do not read it.
bool one_more_pays(const Group& group, const Target& target) {
  const double waited = target.casts_waited_for * seconds_to_move(target, group.bytes);
  return seconds_saved_by_one_step_for(target, 2) > waited;
}

class Finder {
 public:
  Finder(const Graph& graph, const Target& target) : graph_(graph), target_(target), uses_(graph) {
    // Later casts of a state repeat the first one to save memory.
    for (const Node& node : graph.nodes())
      if (casts_state(node)) first_.emplace(std::pair(node.inputs[0], made(node)), &node);
  }

  // Returns the groups by first member, in the graph's order.
  std::vector<Group> find() {
    std::vector<Group> groups;
    std::map<DType, size_t> open;  // the last group of each dtype
    for (const Node& node : graph_.nodes())
      if (is_joint(node)) absorb(node);
    for (const Node& node : graph_.nodes()) {
      if (!joints_.contains(&node) && (!is_first_cast(node) || absorbed_.contains(&node))) continue;
      const auto at = open.find(made(node));
      if (at == open.end() || !one_more_pays(groups[at->second], target_)) {
        open[made(node)] = groups.size();
        groups.push_back({made(node), {}});
      }
      Group& group = groups[open[made(node)]];
      group.members.push_back({&node, joints_.contains(&node) ? joints_[&node] : node.inputs});
      for (const ValueId part : group.members.back().parts) group.bytes += graph_.type(part).bytes();
      group.bytes += graph_.type(node.outputs[0]).bytes();
    }
    std::erase_if(groups, [](const Group& group) { return group.members.size() < 2; });
    return groups;
  }

 private:
  DType made(const Node& node) const { return graph_.type(node.outputs[0]).dtype; }

  bool casts_state(const Node& node) const {
    return is<ops::Cast>(node) && uses_.count(node.outputs[0]) > 0 && is_low_precision(made(node)) &&
           graph_.value(node.inputs[0]).kind == ValueKind::kState &&
           is_float(graph_.type(node.inputs[0]).dtype);
  }

  bool is_first_cast(const Node& node) const {
    return casts_state(node) && first_.at({node.inputs[0], made(node)}) == &node;
  }

  // Matches concat(cast(a), cast(b), ...) along axis 0 if nothing else reads the casts.
  bool is_joint(const Node& node) const {
    const auto joint = match<ops::Concat>(node);
    if (!joint || uses_.count(node.outputs[0]) == 0) return false;
    if (normalize_axis(joint->axis, graph_.type(node.outputs[0]).shape.rank()) != 0) return false;
    return std::ranges::all_of(node.inputs, [&](ValueId input) {
      const auto cast = match_sole<ops::Cast>(graph_, uses_, input);
      return cast && is_first_cast(*cast.node);
    });
  }

  void absorb(const Node& joint) {
    for (const ValueId input : joint.inputs) {
      const Node* cast = producer(graph_, input);
      absorbed_.insert(cast);
      joints_[&joint].push_back(cast->inputs[0]);
    }
  }

  const Graph& graph_;
  const Target& target_;
  const Uses uses_;
  std::map<std::pair<ValueId, DType>, const Node*> first_;
  std::map<const Node*, std::vector<ValueId>> joints_;  // the states that each of them joins
  std::set<const Node*> absorbed_;                      // casts that only a concatenation reads
};

void emit_group(Rewriter& rewriter, const Group& group) {
  ops::CastGroup op{group.dtype, {}};
  std::vector<Value> inputs;
  std::vector<const Node*> nodes;
  for (const Member& member : group.members) {
    for (const ValueId part : member.parts) inputs.push_back(rewriter.map(part));
    op.parts.push_back(static_cast<int64_t>(member.parts.size()));
    nodes.push_back(member.node);
  }
  rewriter.begin_nodes_from(nodes);
  const std::vector<Value> values =
      rewriter.graph().add_node(op_def<ops::CastGroup>(), to_attributes(op), inputs, "cast_group");
  rewriter.end_nodes_from();
  for (size_t i = 0; i < values.size(); ++i) rewriter.replace(*group.members[i].node, {values[i]});
}

// Puts a group where its first member was: states exist from the beginning.
Graph with_groups(const Graph& graph, const std::vector<Group>& groups) {
  std::set<const Node*> gone;
  for (const Group& group : groups)
    for (const Member& member : group.members) gone.insert(member.node);
  Rewriter rewriter(graph);
  size_t next = 0;
  for (const Node& node : graph.nodes()) {
    if (next < groups.size() && groups[next].members.front().node == &node)
      emit_group(rewriter, groups[next++]);
    if (!gone.contains(&node)) rewriter.copy(node);
  }
  return without_dead_nodes(rewriter.finish());
}

}  // namespace

Graph group_casts(const Graph& graph, const PassContext& context) {
  const std::vector<Group> groups =
      context.target ? Finder(graph, *context.target).find() : std::vector<Group>();
  if (groups.empty()) return graph.share();
  Graph result = with_groups(graph, groups);
  const bool fits =
      !context.memory_budget || make_plan(result, *context.target).arena_bytes <= *context.memory_budget;
  return fits ? std::move(result) : graph.share();
}

}  // namespace genesis::passes
