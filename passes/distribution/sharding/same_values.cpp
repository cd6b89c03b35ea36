#include "passes/distribution/sharding/same_values.h"

#include <algorithm>
#include <set>

#include "passes/core/match.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/collective/point_to_point.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

// Returns the states that hold shards, and the parts that these are stored in. Groups come after those whose parts are their
// members.
std::set<int32_t> own_states(const PassContext& context) {
  std::set<int32_t> own;
  if (context.storage)
    for (const StoredGroup& group : context.storage->groups)
      if (group.shard || std::any_of(group.members.begin(), group.members.end(),
                                     [&](int32_t member) { return own.contains(member); }))
        own.insert(group.parts.begin(), group.parts.end());
  return own;
}

// Returns whether the node computes only some indices on this rank from inputs that all ranks have, such as some rows of a
// table's gradient.
bool names_own_indices(const Node& node) {
  const AttrValue* all = node.attributes.find("all_indices");
  return all && std::get<int64_t>(*all) > 0;
}

bool makes_same(const Node& node, bool are_inputs_same) {
  if (has_peer(*node.op)) return false;
  const bool is_of_all = is<ops::AllReduce, ops::AllGather, ops::Broadcast>(node);
  if (axis_of(*node.op, node.attributes) == kTensorAxis) return is_of_all;
  return are_inputs_same && !names_own_indices(node);
}

}  // namespace

std::vector<bool> same_on_ranks(const Graph& graph, const PassContext& context) {
  const std::set<int32_t> own = own_states(context);
  std::vector<bool> same(graph.values().size());
  const auto at = [&](ValueId id) { return same[static_cast<size_t>(id.index)]; };
  for (size_t i = 0; i < same.size(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    same[i] = graph.value(id).kind != ValueKind::kNode && !own.contains(state_of(graph, id));
  }
  for (const Node& node : graph.nodes()) {
    const bool is_same = makes_same(node, std::all_of(node.inputs.begin(), node.inputs.end(), at));
    for (const ValueId output : node.outputs) same[static_cast<size_t>(output.index)] = is_same;
  }
  return same;
}

}  // namespace genesis::passes
