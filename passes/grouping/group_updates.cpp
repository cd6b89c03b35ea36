#include "passes/grouping/passes.h"

#include <algorithm>
#include <unordered_map>

#include "passes/core/adam_updates.h"
#include "passes/core/match.h"
#include "schema/graph/cost_model.h"

namespace genesis::passes {
namespace {

struct Group {
  SharedByUpdates shared;
  DType parameter;
  std::vector<const Node*> members;  // in the graph's order
};

bool is_read(const Uses& uses, const Node& node) {
  for (const ValueId output : node.outputs)
    if (!uses.readers(output).empty()) return true;
  return false;
}

// Returns whether a launch costs anything. Otherwise a group is free: it moves the bytes of its members, and its gradients wait
// for the common scale anyway.
bool pays(const Group& group, const Target& target) {
  return seconds_saved_by_one_step_for(target, group.members.size()) > 0;
}

std::vector<Group> find_groups(const Graph& graph, const Target& target) {
  const Uses uses(graph);
  std::vector<Group> groups;
  for (const Node& node : graph.nodes()) {
    const auto op = match<ops::AdamUpdate>(node);
    if (!op || !op->is_single() || !op->has_scale || is_read(uses, node)) continue;
    const SharedByUpdates shared(node);
    const DType parameter = graph.type(parameter_of(node)).dtype;
    auto at = std::ranges::find_if(
        groups, [&](const Group& g) { return g.shared == shared && g.parameter == parameter; });
    if (at == groups.end()) at = groups.insert(groups.end(), Group{shared, parameter, {}});
    at->members.push_back(&node);
  }
  std::erase_if(groups, [&](const Group& group) { return !pays(group, target); });
  return groups;
}

// Emits the group where its last member was: all gradients are computed by then.
void emit_group(Rewriter& rewriter, const Group& group) {
  ParameterHolders parameters;
  for (const Node* node : group.members) parameters.values.push_back(rewriter.map(parameter_of(*node)));
  rewriter.begin_nodes_from(group.members);
  const std::vector<Value> results = update_together(rewriter, group.shared, group.members, parameters);
  rewriter.end_nodes_from();
  const size_t n = group.members.size();
  for (size_t i = 0; i < n; ++i)
    rewriter.replace(*group.members[i], {results[i], results[n + i], results[2 * n + i]});
}

}  // namespace

Graph group_updates(const Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  const std::vector<Group> groups =
      context.target ? find_groups(graph, *context.target) : std::vector<Group>();
  std::unordered_map<const Node*, const Group*> group_of;
  for (const Group& group : groups)
    for (const Node* member : group.members) group_of[member] = &group;
  for (const Node& node : graph.nodes()) {
    const auto group = group_of.find(&node);
    if (group == group_of.end())
      rewriter.copy(node);
    else if (group->second->members.back() == &node)
      emit_group(rewriter, *group->second);
  }
  return rewriter.finish();
}

}  // namespace genesis::passes
