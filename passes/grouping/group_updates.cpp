#include "passes/grouping/group_updates.h"

#include <algorithm>
#include <unordered_map>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/nn/optimizer.h"

namespace genesis::passes {
namespace {

// What the members of a group have in common.
struct Shared {
  ValueId lr, step, scale;
  DType parameter;
  double beta1, beta2, eps;
  bool decoupled, skip_nonfinite;
  bool operator==(const Shared&) const = default;
};

struct Group {
  Shared shared;
  std::vector<const Node*> members;  // in the graph's order
};

bool is_read(const Uses& uses, const Node& node) {
  for (const ValueId output : node.outputs)
    if (!uses.readers(output).empty()) return true;
  return false;
}

std::vector<Group> find_groups(const Graph& graph) {
  const Uses uses(graph);
  std::vector<Group> groups;
  for (const Node& node : graph.nodes()) {
    const auto op = match<ops::AdamUpdate>(node);
    if (!op || node.inputs.size() < 7 || is_read(uses, node)) continue;
    const Shared shared{node.inputs[4],    node.inputs[5], node.inputs[6], graph.type(node.inputs[0]).dtype,
                        op->beta1,         op->beta2,      op->eps,        op->decoupled,
                        op->skip_nonfinite};
    auto at = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.shared == shared; });
    if (at == groups.end()) at = groups.insert(groups.end(), Group{shared, {}});
    at->members.push_back(&node);
  }
  std::erase_if(groups, [](const Group& g) { return g.members.size() < 2; });
  return groups;
}

// Where the last member stood: there every gradient is made.
void emit_group(Rewriter& rewriter, const Group& group) {
  std::vector<AdamOperands> operands;
  for (const Node* node : group.members) {
    const auto in = rewriter.map(node->inputs);
    operands.push_back(
        {in[0], in[1], in[2], in[3], from_attributes<ops::AdamUpdate>(node->attributes).weight_decay});
  }
  const Shared& shared = group.shared;
  const AdamOptions options{.beta1 = shared.beta1,
                            .beta2 = shared.beta2,
                            .eps = shared.eps,
                            .decoupled = shared.decoupled,
                            .skip_nonfinite = shared.skip_nonfinite};
  rewriter.begin_nodes_from(group.members);
  const std::vector<AdamResult> results = adam_update_group(
      operands, rewriter.map(shared.lr), rewriter.map(shared.step), options, rewriter.map(shared.scale));
  rewriter.end_nodes_from();
  for (size_t i = 0; i < results.size(); ++i)
    rewriter.replace(*group.members[i], {results[i].parameter, results[i].m, results[i].v});
}

}  // namespace

Graph group_updates(const Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  const bool pays = context.target && context.target->launches_are_dear();
  const std::vector<Group> groups = pays ? find_groups(graph) : std::vector<Group>();
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
