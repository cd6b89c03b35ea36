#include "passes/distribution/sharded_updates.h"

#include <algorithm>
#include <utility>

#include "passes/core/match.h"
#include "passes/distribution/optimizer_shards.h"
#include "passes/distribution/passes.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

// Returns the index of the part that holds the rounded weights, which matrix products read. The format must have one.
size_t rounded_part(const StoredGroup& group) { return *group.format->rounded_part(); }

// Groups the items by key() and calls body() with each group, in the order of the groups' first items.
template <class Item>
void for_each_group(std::vector<Item> left, const auto& key, const auto& body) {
  while (!left.empty()) {
    const auto first = key(left[0]);
    const auto others =
        std::stable_partition(left.begin(), left.end(), [&](const Item& item) { return key(item) == first; });
    body(std::vector<Item>(left.begin(), others));
    left.erase(left.begin(), others);
  }
}

Value flat(Value whole) { return reshape(whole, Shape{whole.type().shape.numel()}); }

}  // namespace

ShardedUpdates::ShardedUpdates(const Graph& graph, const PassContext& context, Rewriter& rewriter)
    : graph_(graph),
      ranks_(context.mesh.size(kDataAxis)),
      place_(context.mesh.place(context.rank, kDataAxis)),
      bucket_bytes_(context.target_or_default().bucket_bytes),
      uses_(graph),
      rewriter_(rewriter) {
  if (!context.storage) return;
  for (const StoredGroup& group : context.storage->groups) {
    if (group.shard && group.shard->axis == kDataAxis && group.format->rounded_part())
      stored_.push_back({&group});
    else if (group.shard && group.shard->axis == kDataAxis)
      shards_[group.members[0]] = group.parts[0];
  }
  for (Stored& stored : stored_)
    for (const int32_t member : stored.group->members) stored_of_[member] = &stored;
}

bool ShardedUpdates::contains(const Node& node) const {
  const UpdateInputs inputs = update_inputs(node);
  return !inputs.moments.empty() && shards_.contains(state_of(graph_, node.inputs[inputs.moments[0]]));
}

Value ShardedUpdates::shard_of(Value whole) const {
  const Value all = flat(whole);
  const int64_t count = all.type().numel() / ranks_;
  return narrow(all, 0, Dim(place_ * count), Dim(count));
}

Value ShardedUpdates::moment(ValueId value) {
  return rewriter_.graph().state(shards_.at(state_of(graph_, value)));
}

void ShardedUpdates::add_moments(const Node& node, const std::vector<Value>& moments) {
  const UpdateInputs at = update_inputs(node);
  for (size_t k = 0; k < moments.size(); ++k) {
    const int32_t state = state_of(graph_, node.inputs[at.moments[k]]);
    rewriter_.drop_update(state);
    rewriter_.graph().add_update(shards_.at(state), moments[k]);
  }
}

void ShardedUpdates::emit(const Node& node, Value gradient) {
  const int32_t parameter = state_of(graph_, node.inputs[update_inputs(node).parameter]);
  const auto adam = match<ops::AdamUpdate>(node);
  // Updates without a scale are emitted at once, so that the memory of each gradient is free as soon as it has been used. Updates
  // with a scale wait anyway, until all gradients are known.
  const bool may_wait = adam && adam->is_single() && adam->has_scale;
  if (const auto found = stored_of_.find(parameter); found != stored_of_.end()) {
    Stored& stored = *found->second;
    stored.updates[parameter] = {&node, gradient};
    rewriter_.drop_update(parameter);
    bytes_ +=
        stored.group->format->part_bytes(rounded_part(*stored.group), graph_.type(node.outputs[0]).numel());
    if (stored.updates.size() == stored.group->members.size()) ready_.push_back(&stored);
    if (!may_wait) emit_ready();
  } else {
    if (may_wait)
      plain_.push_back({&node, gradient});
    else
      emit_plain(node, gradient);
    if (is_gathered(node)) bytes_ += graph_.type(node.outputs[0]).bytes();
  }
  rewriter_.replace(node, std::vector<Value>(node.outputs.size()));
  if (bytes_ >= bucket_bytes_) finish();
}

// Returns this rank's shard of the parameter, flat.
Value ShardedUpdates::parameter_shard(const Node& node) {
  const ValueId parameter = node.inputs[update_inputs(node).parameter];
  const auto shard = shards_.find(state_of(graph_, parameter));
  return shard == shards_.end() ? shard_of(rewriter_.map(parameter)) : rewriter_.graph().state(shard->second);
}

bool ShardedUpdates::is_gathered(const Node& node) const {
  return !shards_.contains(state_of(graph_, node.inputs[update_inputs(node).parameter])) ||
         !uses_.readers(node.outputs[0]).empty();
}

// Emits the node anew, with this rank's shards of the parameter, the gradient and the moments in place of whole tensors.
void ShardedUpdates::emit_plain(const Node& node, Value gradient) {
  const UpdateInputs at = update_inputs(node);
  std::vector<Value> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool is_moment = std::find(at.moments.begin(), at.moments.end(), i) != at.moments.end();
    inputs.push_back(is_moment           ? moment(node.inputs[i])
                     : i == at.gradient  ? gradient
                     : i == at.parameter ? parameter_shard(node)
                                         : rewriter_.map(node.inputs[i]));
  }
  add_new_shard(node, emit_node(*node.op, node.attributes, inputs));
}

void ShardedUpdates::add_operands(UpdateOperands& operands, const Node& adam, Value gradient) {
  const UpdateInputs at = update_inputs(adam);
  operands.gradients.push_back(gradient);
  operands.moments.resize(at.moments.size());
  for (size_t i = 0; i < at.moments.size(); ++i)
    operands.moments[i].push_back(moment(adam.inputs[at.moments[i]]));
}

void ShardedUpdates::emit_plain_together(const std::vector<Plain>& all) {
  ParameterHolders holders;
  std::vector<const Node*> nodes;
  UpdateOperands operands;
  for (const auto& [node, gradient] : all) {
    nodes.push_back(node);
    holders.values.push_back(parameter_shard(*node));
    add_operands(operands, *node, gradient);
  }
  rewriter_.from_nodes(nodes);
  const std::vector<Value> results =
      update_together(rewriter_, SharedByUpdates(*nodes[0]), nodes, holders, operands);
  const size_t n = nodes.size();
  for (size_t k = 0; k < n; ++k) add_new_shard(*nodes[k], results_of_update(results, 0, n, k));
}

// Adds the results of the update of a plain parameter's shard.
void ShardedUpdates::add_new_shard(const Node& node, const std::vector<Value>& results) {
  add_moments(node, {results.begin() + 1, results.end()});
  const int32_t parameter = state_of(graph_, node.inputs[update_inputs(node).parameter]);
  if (const auto shard = shards_.find(parameter); shard != shards_.end()) {
    rewriter_.drop_update(parameter);
    rewriter_.graph().add_update(shard->second, results[0]);
  }
  if (is_gathered(node)) to_gather_.push_back({.update = &node, .nodes = {&node}, .ranges = {results[0]}});
}

// Emits waiting updates; updates with the same SharedByUpdates and dtype or format become one node.
void ShardedUpdates::emit_ready() {
  for_each_group(
      std::exchange(plain_, {}),
      [&](const Plain& plain) {
        return std::pair(graph_.type(parameter_of(*plain.node)).dtype, SharedByUpdates(*plain.node));
      },
      [&](const std::vector<Plain>& alike) { emit_plain_together(alike); });
  for_each_group(
      std::exchange(ready_, {}),
      [](const Stored* stored) {
        return std::pair(stored->group->format, SharedByUpdates(*stored->updates.begin()->second.first));
      },
      [&](const std::vector<const Stored*>& alike) { emit_stored_together(alike); });
}

// Emits one node for the members of all groups, with this rank's range of every part. The results of that node are ordered by
// part, then by member; the moments follow, as if they were two more parts.
void ShardedUpdates::emit_stored_together(const std::vector<const Stored*>& all) {
  std::vector<std::vector<Value>> holders(all[0]->group->parts.size());
  std::vector<const Node*> nodes;
  UpdateOperands operands;
  for (const Stored* stored : all) {
    const StoredGroup& group = *stored->group;
    for (size_t part = 0; part < holders.size(); ++part) {
      const std::vector<Value> ranges = ranges_of(group, part);
      holders[part].insert(holders[part].end(), ranges.begin(), ranges.end());
    }
    for (const int32_t member : group.members) {
      const auto& [node, gradient] = stored->updates.at(member);
      nodes.push_back(node);
      add_operands(operands, *node, gradient);
    }
  }
  rewriter_.from_nodes(nodes);
  const size_t n = nodes.size(), parts = holders.size();
  ParameterHolders parameters{{}, std::vector<int64_t>(n, 1)};
  for (const std::vector<Value>& part : holders)
    parameters.values.insert(parameters.values.end(), part.begin(), part.end());
  const std::vector<Value> results =
      update_together(rewriter_, SharedByUpdates(*nodes[0]), nodes, parameters, operands);
  for (size_t k = 0; k < n; ++k) add_moments(*nodes[k], results_of_update(results, parts * n, n, k));
  size_t first = 0;
  for (const Stored* stored : all) {
    const size_t next = first + stored->group->members.size();
    for (size_t part = parts; part-- > 0;)
      add_new_part(
          *stored->group, part, {nodes.begin() + ptrdiff_t(first), nodes.begin() + ptrdiff_t(next)},
          {results.begin() + ptrdiff_t(part * n + first), results.begin() + ptrdiff_t(part * n + next)});
    first = next;
  }
}

// Returns this rank's ranges of a part, by member: slices of the shard, or this rank's range of each member if the part is
// whole.
std::vector<Value> ShardedUpdates::ranges_of(const StoredGroup& group, size_t part) {
  const Value all = rewriter_.graph().state(group.parts[part]);
  if (group.members.size() == 1) return {group.is_shard(part) ? all : shard_of(all)};
  std::vector<Value> ranges;
  Dim row(0), first(0);
  for (const int32_t member : group.members) {
    const TensorType& type = graph_.model().state(member).type;
    const Dim rows = type.shape[0], count(type.numel() / ranks_);
    ranges.push_back(group.is_shard(part) ? narrow(all, 0, first, count)
                                          : shard_of(narrow(all, 0, row, rows)));
    row = row + rows;
    first = first + count;
  }
  return ranges;
}

// Adds an update of the part; `ranges` are the new ranges by member.
void ShardedUpdates::add_new_part(const StoredGroup& group, size_t part, std::vector<const Node*> nodes,
                                  std::vector<Value> ranges) {
  if (group.is_shard(part))
    rewriter_.graph().add_update(group.parts[part], ranges.size() == 1 ? ranges[0] : concat(ranges, 0));
  else
    to_gather_.push_back({.group = &group, .nodes = std::move(nodes), .ranges = std::move(ranges)});
}

bool ShardedUpdates::is_awaited_by(const Node& node) const {
  const auto reads = [&](const Node& update) {
    return std::find(node.inputs.begin(), node.inputs.end(), update.outputs[0]) != node.inputs.end();
  };
  return std::any_of(plain_.begin(), plain_.end(), [&](const Plain& plain) { return reads(*plain.node); }) ||
         std::any_of(to_gather_.begin(), to_gather_.end(),
                     [&](const ToGather& item) { return item.update && reads(*item.update); });
}

void ShardedUpdates::finish() {
  emit_ready();
  gather();
  bytes_ = 0;
}

void ShardedUpdates::gather() {
  if (to_gather_.empty()) return;
  std::vector<const Node*> nodes;
  std::vector<Value> ranges;
  for (const ToGather& item : to_gather_) {
    nodes.insert(nodes.end(), item.nodes.begin(), item.nodes.end());
    ranges.insert(ranges.end(), item.ranges.begin(), item.ranges.end());
  }
  rewriter_.from_nodes(nodes);
  const std::vector<Value> gathered = all_gather(ranges, kDataAxis, ranks_);
  size_t next = 0;
  for (const ToGather& item : to_gather_) {
    const auto first = gathered.begin() + static_cast<int64_t>(next);
    set_gathered(item, {first, first + static_cast<int64_t>(item.ranges.size())});
    next += item.ranges.size();
  }
  to_gather_.clear();
}

// Makes the gathered ranges the value of the new parameter, or of the rounded part of the group.
void ShardedUpdates::set_gathered(const ToGather& item, const std::vector<Value>& values) {
  if (item.update) {
    const ValueId parameter = item.update->outputs[0];
    return rewriter_.replace(parameter, reshape(values[0], graph_.type(parameter).shape));
  }
  const int32_t part = item.group->parts[rounded_part(*item.group)];
  const Value all = values.size() == 1 ? values[0] : concat(values, 0);
  rewriter_.graph().add_update(part, reshape(all, graph_.model().state(part).type.shape));
}

}  // namespace genesis::passes
