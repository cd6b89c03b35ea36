#include "passes/distribution/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/distribution/optimizer_shards.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

// "model.layers.3.mlp.up_proj.weight" -> "model.layers.3"; empty if no component of the name is a number.
std::string layer_of(const std::string& name) {
  for (size_t from = 0, dot; (dot = name.find('.', from)) != std::string::npos; from = dot + 1)
    if (dot > from && name.find_first_not_of("0123456789", from) >= dot) return name.substr(0, dot);
  return "";
}

class Placer {
 public:
  explicit Placer(const Graph& graph)
      : graph_(graph), uses_(graph), form_of_(graph.values().size(), kNone), rewriter_(graph) {
    for (const Node& node : graph.nodes()) find_forms(node);
    for (const Node& node : graph.nodes())
      if (!makes_forms(node)) add_to_unit(node);
  }

  bool has_some() const { return !units_.empty(); }

  Graph run() {
    for (const Node& node : graph_.nodes()) {
      if (makes_forms(node)) continue;
      if (const auto at = unit_of_.find(&node); at != unit_of_.end()) {
        if (units_[at->second].first == &node) begin_unit(at->second);
        for (const ValueId input : node.inputs)
          if (form(input) != kNone) rewriter_.replace(input, made(units_[at->second], form(input)));
      }
      rewriter_.copy(node);
    }
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  static constexpr int kNone = -1;

  // A value made of weights: the gathered weight, or another form (reshaped, cast, joined) of such values. Equal forms are one.
  struct Form {
    const Node* node = nullptr;
    std::vector<int> inputs = {};  // numbers of the forms it is made of; empty for a gather
    ValueId shard = {};            // the shard that a gather reads
    std::string layer = {};
    bool is_gather() const { return inputs.empty(); }
  };
  struct Unit {
    std::string layer;
    const Node* first;
    std::set<int> gathers = {};
    std::map<int, Value> made = {};
  };

  int form(ValueId id) const { return form_of_[static_cast<size_t>(id.index)]; }
  bool makes_forms(const Node& node) const { return form(node.outputs[0]) != kNone; }

  // Returns whether the value is a state, or one node computes it from states only.
  bool is_made_of_states(ValueId id) const {
    if (state_of(graph_, id) >= 0) return true;
    const Node* node = producer(graph_, id);
    return node && node->outputs.size() == 1 && !node->op->info.collective && !node->inputs.empty() &&
           std::all_of(node->inputs.begin(), node->inputs.end(),
                       [&](ValueId input) { return state_of(graph_, input) >= 0; });
  }

  bool is_read_by_nodes_alone(const Node& node) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      int reads = 0;
      for (const NodeId reader : uses_.readers(id)) {
        const std::vector<ValueId>& inputs = graph_.node(reader).inputs;
        reads += static_cast<int>(std::count(inputs.begin(), inputs.end(), id));
      }
      return reads == uses_.count(id);
    });
  }

  void find_forms(const Node& node) {
    if (!is_read_by_nodes_alone(node)) return;
    const auto each = [&](const auto& is_so) {
      return std::all_of(node.inputs.begin(), node.inputs.end(), is_so);
    };
    const auto gather = match<ops::AllGather>(node);
    if (gather && gather->axis == kDataAxis && each([&](ValueId id) { return is_made_of_states(id); })) {
      for (size_t i = 0; i < node.inputs.size(); ++i)
        set_form(node.outputs[i], key_of_shard(node.inputs[i]),
                 {&node, {}, node.inputs[i], layer(node.inputs[i])});
    } else if (is<ops::Reshape, ops::Concat, ops::Pad, ops::Cast, ops::Permute>(node) &&
               each([&](ValueId id) { return form(id) != kNone; })) {
      Form made{.node = &node};
      for (const ValueId id : node.inputs) made.inputs.push_back(form(id));
      std::string key(node.op->name());
      key += node.attributes.to_string();
      for (const int input : made.inputs) key += "," + std::to_string(input);
      set_form(node.outputs[0], key, std::move(made));
    }
  }

  std::string key_of_shard(ValueId shard) const {
    if (const int32_t state = state_of(graph_, shard); state >= 0) return "@" + std::to_string(state);
    const Node& node = *producer(graph_, shard);
    std::string key = "@" + std::string(node.op->name()) + node.attributes.to_string();
    for (const ValueId id : node.inputs) key += ",@" + std::to_string(state_of(graph_, id));
    return key;
  }

  std::string layer(ValueId shard) const {
    int32_t state = state_of(graph_, shard);
    if (state < 0) state = state_of(graph_, producer(graph_, shard)->inputs[0]);
    return layer_of(graph_.model().state(state).name);
  }

  void set_form(ValueId id, const std::string& key, Form form) {
    const auto [at, is_new] = numbers_.try_emplace(key, static_cast<int>(forms_.size()));
    if (is_new) forms_.push_back(std::move(form));
    form_of_[static_cast<size_t>(id.index)] = at->second;
  }

  void add_gathers(int number, std::set<int>& gathers) const {
    const Form& form = forms_[static_cast<size_t>(number)];
    if (form.is_gather()) gathers.insert(number);
    for (const int input : form.inputs) add_gathers(input, gathers);
  }

  void add_to_unit(const Node& node) {
    std::set<int> gathers;
    for (const ValueId input : node.inputs)
      if (form(input) != kNone) add_gathers(form(input), gathers);
    if (gathers.empty()) return;
    const std::string& layer = forms_[static_cast<size_t>(*gathers.begin())].layer;
    if (units_.empty() || units_.back().layer != layer) units_.push_back({layer, &node});
    units_.back().gathers.merge(gathers);
    unit_of_[&node] = units_.size() - 1;
  }

  void begin_unit(size_t unit) {
    if (unit == 0) gather(units_[0]);
    if (unit + 1 < units_.size()) gather(units_[unit + 1]);
  }

  void gather(Unit& unit) {
    std::vector<const Node*> nodes;
    std::vector<Value> shards;
    for (const int number : unit.gathers) {
      const Form& form = forms_[static_cast<size_t>(number)];
      nodes.push_back(form.node);
      shards.push_back(shard(form.shard));
    }
    const auto op = from_attributes<ops::AllGather>(nodes[0]->attributes);
    rewriter_.from_nodes(nodes);
    const std::vector<Value> values = all_gather(shards, op.axis, op.ranks);
    rewriter_.end_nodes_from();
    size_t next = 0;
    for (const int number : unit.gathers) unit.made[number] = values[next++];
  }

  Value shard(ValueId id) {
    if (state_of(graph_, id) >= 0) return rewriter_.map(id);
    const Node& node = *producer(graph_, id);
    rewriter_.from_nodes({&node});
    return emit_node(*node.op, node.attributes, rewriter_.map(node.inputs))[0];
  }

  Value made(Unit& unit, int number) {
    Value& value = unit.made[number];
    if (value) return value;
    const Form& form = forms_[static_cast<size_t>(number)];
    std::vector<Value> inputs;
    for (const int input : form.inputs) inputs.push_back(made(unit, input));
    rewriter_.from_nodes({form.node});
    value = emit_node(*form.node->op, form.node->attributes, inputs)[0];
    rewriter_.end_nodes_from();
    return value;
  }

  const Graph& graph_;
  const Uses uses_;
  std::vector<int> form_of_;  // by value id: number of its form, or kNone
  std::vector<Form> forms_;
  std::map<std::string, int> numbers_;
  std::vector<Unit> units_;
  std::map<const Node*, size_t> unit_of_;
  Rewriter rewriter_;
};

}  // namespace

Graph place_gathers(const Graph& graph, const PassContext& context) {
  const auto is_weight = [&](const StoredGroup& group) { return is_weight_shard(graph.model(), group); };
  if (!context.storage ||
      std::none_of(context.storage->groups.begin(), context.storage->groups.end(), is_weight))
    return graph.share();
  Placer placer(graph);
  return placer.has_some() ? placer.run() : graph.share();
}

}  // namespace genesis::passes
