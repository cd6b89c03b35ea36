#include "passes/distribution/part_updates.h"

#include <algorithm>

#include "passes/core/match.h"
#include "passes/distribution/optimizer_shards.h"
#include "passes/distribution/passes.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

constexpr size_t kUpper = 0, kLower = 1;  // parts of bf16_halves_format

Value flat(Value whole) { return reshape(whole, Shape{whole.type().shape.numel()}); }

}  // namespace

PartUpdates::PartUpdates(const Graph& graph, const PassContext& context, Rewriter& rewriter)
    : graph_(graph),
      ranks_(context.mesh.size("data")),
      place_(context.mesh.place(context.rank, "data")),
      bucket_bytes_(context.target_or_default().bucket_bytes),
      uses_(graph),
      rewriter_(rewriter) {
  if (!context.storage) return;
  for (const StoredGroup& group : context.storage->groups) {
    if (group.shard && group.shard->axis == "data" && group.format == &bf16_halves_format())
      halves_.push_back({&group});
    else if (group.shard && group.shard->axis == "data")
      shards_[group.members[0]] = group.parts[0];
  }
  for (Halves& halves : halves_)
    for (const int32_t member : halves.group->members) halves_of_[member] = &halves;
}

bool PartUpdates::contains(const Node& node) const {
  const UpdateInputs inputs = update_inputs(node);
  return !inputs.moments.empty() && shards_.contains(state_of(graph_, node.inputs[inputs.moments[0]]));
}

Value PartUpdates::part_of(Value whole) const {
  const Value all = flat(whole);
  const int64_t count = all.type().numel() / ranks_;
  return narrow(all, 0, Dim(place_ * count), Dim(count));
}

Value PartUpdates::moment(ValueId value) {
  return rewriter_.graph().state(shards_.at(state_of(graph_, value)));
}

void PartUpdates::add_moments(const Node& node, const std::vector<Value>& moments) {
  const UpdateInputs at = update_inputs(node);
  for (size_t k = 0; k < moments.size(); ++k) {
    const int32_t state = state_of(graph_, node.inputs[at.moments[k]]);
    rewriter_.drop_update(state);
    rewriter_.graph().add_update(shards_.at(state), moments[k]);
  }
}

void PartUpdates::emit(const Node& node, Value gradient) {
  const int32_t parameter = state_of(graph_, node.inputs[update_inputs(node).parameter]);
  const auto found = halves_of_.find(parameter);
  if (found == halves_of_.end()) {
    emit_plain(node, gradient);
  } else {
    Halves& halves = *found->second;
    halves.updates[parameter] = {&node, gradient};
    rewriter_.drop_update(parameter);
    bytes_ += graph_.type(node.outputs[0]).numel() * 2;
    if (halves.updates.size() == halves.group->members.size()) ready_.push_back(&halves);
    // Others have one gradient after the other, and are done with it.
    if (!SharedByUpdates(node).op.has_scale) emit_ready();
  }
  rewriter_.replace(node, std::vector<Value>(node.outputs.size()));
  if (bytes_ >= bucket_bytes_) finish();
}

void PartUpdates::emit_plain(const Node& node, Value gradient) {
  const UpdateInputs at = update_inputs(node);
  const int32_t parameter = state_of(graph_, node.inputs[at.parameter]);
  const auto shard = shards_.find(parameter);
  std::vector<Value> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool is_moment = std::find(at.moments.begin(), at.moments.end(), i) != at.moments.end();
    if (is_moment)
      inputs.push_back(moment(node.inputs[i]));
    else if (i == at.gradient)
      inputs.push_back(gradient);
    else if (i != at.parameter)
      inputs.push_back(rewriter_.map(node.inputs[i]));
    else
      inputs.push_back(shard == shards_.end() ? part_of(rewriter_.map(node.inputs[i]))
                                              : rewriter_.graph().state(shard->second));
  }
  const std::vector<Value> results = emit_node(*node.op, node.attributes, inputs);
  add_moments(node, {results.begin() + 1, results.end()});
  if (shard != shards_.end()) {
    rewriter_.drop_update(parameter);
    rewriter_.graph().add_update(shard->second, results[0]);
    if (uses_.readers(node.outputs[0]).empty()) return;
  }
  wholes_.push_back({.update = &node, .nodes = {&node}, .parts = {results[0]}});
  bytes_ += graph_.type(node.outputs[0]).bytes();
}

// Those that share what updates share, by one node.
void PartUpdates::emit_ready() {
  std::vector<const Halves*> left = std::move(ready_);
  ready_.clear();
  const auto shared = [](const Halves* halves) {
    return SharedByUpdates(*halves->updates.begin()->second.first);
  };
  while (!left.empty()) {
    const SharedByUpdates first = shared(left[0]);
    const auto others = std::stable_partition(left.begin(), left.end(),
                                              [&](const Halves* halves) { return shared(halves) == first; });
    emit_together({left.begin(), others});
    left.erase(left.begin(), others);
  }
}

void PartUpdates::emit_together(const std::vector<const Halves*>& halves) {
  std::vector<const Node*> nodes;
  std::vector<Value> uppers, lowers, gradients, m, v;
  SharedByUpdates shared(*halves[0]->updates.begin()->second.first);
  for (const Halves* each : halves) {
    const StoredGroup& group = *each->group;
    uppers.push_back(upper_part(group));
    lowers.push_back(rewriter_.graph().state(group.parts[kLower]));
    shared.op.parameters_per_half.push_back(static_cast<int64_t>(group.members.size()));
    for (const int32_t member : group.members) {
      const auto& [node, gradient] = each->updates.at(member);
      const UpdateInputs at = update_inputs(*node);
      nodes.push_back(node);
      gradients.push_back(gradient);
      m.push_back(moment(node->inputs[at.moments[0]]));
      v.push_back(moment(node->inputs[at.moments[1]]));
      shared.op.weight_decays.push_back(match<ops::AdamUpdate>(*node)->weight_decays[0]);
    }
  }
  std::vector<Value> inputs = rewriter_.map(shared.scalars);
  for (const auto& more : {uppers, lowers, gradients, m, v})
    inputs.insert(inputs.end(), more.begin(), more.end());
  rewriter_.from_nodes(nodes);
  const std::vector<Value> results = emit_node(shared.op, inputs);
  const size_t groups = halves.size(), n = nodes.size();
  for (size_t k = 0; k < n; ++k)
    add_moments(*nodes[k], {results[2 * groups + k], results[2 * groups + n + k]});
  size_t next = 0;
  for (size_t i = 0; i < groups; ++i) {
    const size_t count = halves[i]->group->members.size();
    add_new_halves(
        *halves[i]->group,
        {nodes.begin() + static_cast<int64_t>(next), nodes.begin() + static_cast<int64_t>(next + count)},
        results[i], results[groups + i]);
    next += count;
  }
}

// Of all members, one behind the other.
Value PartUpdates::upper_part(const StoredGroup& group) {
  const Value upper = rewriter_.graph().state(group.parts[kUpper]);
  if (group.is_shard(kUpper)) return upper;
  std::vector<Value> parts;
  Dim row(0);
  for (const int32_t member : group.members) {
    const Dim rows = graph_.model().state(member).type.shape[0];
    parts.push_back(part_of(group.members.size() == 1 ? upper : narrow(upper, 0, row, rows)));
    row = row + rows;
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 0);
}

void PartUpdates::add_new_halves(const StoredGroup& group, std::vector<const Node*> nodes, Value upper,
                                 Value lower) {
  rewriter_.graph().add_update(group.parts[kLower], lower);
  if (group.is_shard(kUpper)) return rewriter_.graph().add_update(group.parts[kUpper], upper);
  Whole whole{.group = &group, .nodes = std::move(nodes)};
  int64_t first = 0;
  for (const int32_t member : group.members) {
    const int64_t count = graph_.model().state(member).type.numel() / ranks_;
    whole.parts.push_back(group.members.size() == 1 ? upper : narrow(upper, 0, Dim(first), Dim(count)));
    first += count;
  }
  wholes_.push_back(std::move(whole));
}

bool PartUpdates::is_awaited_by(const Node& node) const {
  return std::any_of(wholes_.begin(), wholes_.end(), [&](const Whole& whole) {
    return whole.update &&
           std::find(node.inputs.begin(), node.inputs.end(), whole.update->outputs[0]) != node.inputs.end();
  });
}

void PartUpdates::finish() {
  emit_ready();
  gather();
  bytes_ = 0;
}

void PartUpdates::gather() {
  if (wholes_.empty()) return;
  std::vector<const Node*> nodes;
  std::vector<Value> parts;
  for (const Whole& whole : wholes_) {
    nodes.insert(nodes.end(), whole.nodes.begin(), whole.nodes.end());
    parts.insert(parts.end(), whole.parts.begin(), whole.parts.end());
  }
  rewriter_.from_nodes(nodes);
  const std::vector<Value> gathered = all_gather(parts, "data", ranks_);
  size_t next = 0;
  for (const Whole& whole : wholes_) {
    const auto first = gathered.begin() + static_cast<int64_t>(next);
    put(whole, {first, first + static_cast<int64_t>(whole.parts.size())});
    next += whole.parts.size();
  }
  wholes_.clear();
}

void PartUpdates::put(const Whole& whole, const std::vector<Value>& values) {
  if (whole.update) {
    const ValueId parameter = whole.update->outputs[0];
    return rewriter_.replace(parameter, reshape(values[0], graph_.type(parameter).shape));
  }
  const int32_t upper = whole.group->parts[kUpper];
  const Value all = values.size() == 1 ? values[0] : concat(values, 0);
  rewriter_.graph().add_update(upper, reshape(all, graph_.model().state(upper).type.shape));
}

}  // namespace genesis::passes
