#include "passes/fusion/elementwise/fuse_elementwise.h"

#include <algorithm>
#include <map>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/elementwise/fusion_groups.h"
#include "schema/ops/collective/point_to_point.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/fused.h"
#include "schema/ops/elementwise/fused_program.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

// A region as the text of a program, with its inputs as values of the old graph.
struct Region {
  std::vector<ValueId> inputs;
  std::vector<std::string> body;
  std::map<ValueId, int> numbers;  // numbers of the members' values inside the body
};

class RegionWriter {
 public:
  RegionWriter(const Graph& graph, const FusionGroups& groups, const FusionGroup& group)
      : graph_(graph), groups_(groups), group_(group) {}

  // Collects the inputs in a first pass over the members, because inputs are numbered before ops.
  Region write() {
    for (NodeId id : group_.members)
      for (ValueId input : graph_.node(id).inputs) collect(input);
    for (NodeId id : group_.members) {
      const Node& node = graph_.node(id);
      Attributes attributes = node.attributes;
      if (reduces_rows(graph_, node)) attributes.set("keep_dims", true);
      std::vector<int> operands;
      for (ValueId input : node.inputs) operands.push_back(operand(input));
      region_.numbers[node.outputs[0]] = line(*node.op, attributes, operands);
    }
    return std::move(region_);
  }

 private:
  const Node* producer(ValueId value) const {
    const ValueInfo& info = graph_.value(value);
    return info.kind == ValueKind::kNode ? &graph_.node(info.producer) : nullptr;
  }
  bool inside(NodeId id) const { return id.index >= 0 && groups_.same(id, group_.members[0]); }

  // Returns the member's value that `value` equals without expansion; empty if there is none.
  std::optional<ValueId> member_value(ValueId value) const {
    const Node* node = producer(value);
    if (!node || is<ops::Expand>(*node)) return std::nullopt;
    const NodeId source = source_of(graph_, value);
    if (!inside(source)) return std::nullopt;
    return graph_.node(source).outputs[0];
  }

  void collect(ValueId value) {
    if (member_value(value)) return;
    const Node* node = producer(value);
    if (node && is<ops::Full>(*node)) return;
    if (node && is<ops::Expand>(*node)) return collect(node->inputs[0]);
    if (std::ranges::find(region_.inputs, value) == region_.inputs.end()) region_.inputs.push_back(value);
  }

  int operand(ValueId value) {
    if (const auto member = member_value(value)) return region_.numbers.at(*member);
    const auto at = std::ranges::find(region_.inputs, value);
    if (at != region_.inputs.end()) return static_cast<int>(at - region_.inputs.begin());
    if (const auto made = free_.find(value); made != free_.end()) return made->second;
    const Node& node = *producer(value);
    std::vector<int> operands;
    for (ValueId input : node.inputs) operands.push_back(operand(input));
    return free_[value] = line(*node.op, node.attributes, operands);
  }

  int line(const OpDef& op, const Attributes& attributes, const std::vector<int>& operands) {
    region_.body.push_back(fused_op_text(op, attributes, operands));
    return static_cast<int>(region_.inputs.size() + region_.body.size()) - 1;
  }

  const Graph& graph_;
  const FusionGroups& groups_;
  const FusionGroup& group_;
  Region region_;
  std::map<ValueId, int> free_;  // expansions and constants that are made inside the region
};

class Fuser {
 public:
  Fuser(const Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        groups_(graph),
        rewriter_(graph),
        needed_(graph.values().size()),
        live_(graph.nodes().size()) {}

  Graph run() {
    write_regions();
    if (regions_.empty()) return without_dead_nodes(graph_);
    find_needed();
    for (NodeId unit : order()) emit(unit);
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  // A unit is a group; it is named by its last member.
  NodeId unit_of(NodeId node) const { return groups_.of(node).members.back(); }
  bool needed(ValueId value) const { return needed_[static_cast<size_t>(value.index)]; }

  const std::vector<ValueId>& inputs_of(NodeId unit) const {
    const auto region = regions_.find(unit);
    return region == regions_.end() ? graph_.node(unit).inputs : region->second.inputs;
  }

  void write_regions() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId id{static_cast<int32_t>(i)};
      const FusionGroup& group = groups_.of(id);
      if (!group.fusable || group.members.back() != id) continue;
      Region region = RegionWriter(graph_, groups_, group).write();
      if (saves_memory(group, region) && can_run(group, region))
        regions_[id] = std::move(region);
      else if (group.members.size() > 1)
        groups_.dissolve(id);
    }
  }

  // Returns whether the region saves memory traffic. For a single node it does only if an operand was expanded in memory.
  bool saves_memory(const FusionGroup& group, const Region& region) const {
    if (group.members.size() > 1) return !region.inputs.empty();
    if (reduces_rows(graph_, graph_.node(group.members[0])) || region.inputs.empty()) return false;
    for (ValueId input : graph_.node(group.members[0]).inputs) {
      const bool is_input = std::ranges::find(region.inputs, input) != region.inputs.end();
      if (!is_input && !(graph_.type(input).shape.numel() == Dim(1))) return true;
    }
    return false;
  }

  bool can_run(const FusionGroup& group, const Region& region) const {
    const Node& last = graph_.node(group.members.back());
    const ops::Fused op{region.body, {region.numbers.at(last.outputs[0])}};
    std::vector<TensorType> inputs;
    for (ValueId id : region.inputs) inputs.push_back(graph_.type(id));
    try {
      const std::vector<TensorType> outputs = op.infer(inputs);
      const bool known =
          std::ranges::all_of(inputs, [](const TensorType& type) { return type.shape.is_constant(); });
      if (!known || !context_.target) return true;
      return context_.target->runs(
          context_.target->query(op_def<ops::Fused>(), to_attributes(op), inputs, outputs));
    } catch (const Error&) {
      return false;
    }
  }

  void need(ValueId value) { needed_[static_cast<size_t>(value.index)] = true; }

  // Finds the values that are read from memory, from the results backwards; values that regions compute inside are skipped.
  void find_needed() {
    for (const NamedValue& output : graph_.outputs()) need(output.value);
    for (const StateUpdate& update : graph_.updates()) need(update.value);
    std::vector<NodeId> units = order();
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
      const auto& members = groups_.of(*unit).members;
      const bool live = std::ranges::any_of(members, [&](NodeId id) {
        const auto& outputs = graph_.node(id).outputs;
        if (has_peer(*graph_.node(id).op)) return true;
        return std::ranges::any_of(outputs, [&](ValueId v) { return needed(v); });
      });
      if (!live) continue;
      live_[static_cast<size_t>(unit->index)] = true;
      for (ValueId input : inputs_of(*unit)) need(input);
    }
  }

  // Returns the units in a valid order that is as near to the old order as possible.
  std::vector<NodeId> order() const {
    std::vector<NodeId> units;
    std::vector<Precedence> precedences;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeId unit{static_cast<int32_t>(i)};
      if (unit_of(unit) != unit) continue;
      units.push_back(unit);
      for (ValueId input : inputs_of(unit))
        if (const ValueInfo& info = graph_.value(input); info.kind == ValueKind::kNode)
          precedences.emplace_back(unit_of(info.producer), unit);
    }
    const std::vector<Precedence> exchanges = order_of_exchanges(graph_);
    precedences.insert(precedences.end(), exchanges.begin(), exchanges.end());
    return in_order(units, precedences);
  }

  void emit(NodeId unit) {
    const auto region = regions_.find(unit);
    if (!live_[static_cast<size_t>(unit.index)]) return;
    if (region == regions_.end()) return rewriter_.copy(graph_.node(unit));
    std::vector<const Node*> members;
    std::vector<const Node*> results;
    std::vector<int64_t> outputs;
    for (NodeId id : groups_.of(unit).members) {
      const Node& node = graph_.node(id);
      members.push_back(&node);
      if (!needed(node.outputs[0])) continue;
      results.push_back(&node);
      outputs.push_back(region->second.numbers.at(node.outputs[0]));
    }
    rewriter_.begin_nodes_from(members);
    const std::vector<Value> values =
        fused(rewriter_.map(region->second.inputs), region->second.body, outputs);
    for (size_t i = 0; i < results.size(); ++i)
      rewriter_.replace(*results[i], {reshape(values[i], graph_.type(results[i]->outputs[0]).shape)});
    rewriter_.end_nodes_from();
    if (context_.on_rewrite)
      context_.on_rewrite("fuse_elementwise", values[0].graph->value(values[0].id).name);
  }

  const Graph& graph_;
  const PassContext& context_;
  FusionGroups groups_;
  Rewriter rewriter_;
  std::map<NodeId, Region> regions_;  // by unit
  std::vector<bool> needed_;          // by value id
  std::vector<bool> live_;            // by unit
};

}  // namespace

Graph fuse_elementwise(const Graph& graph, const PassContext& context) { return Fuser(graph, context).run(); }

}  // namespace genesis::passes
