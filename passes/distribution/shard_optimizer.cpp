#include "passes/distribution/shard_optimizer.h"

#include <algorithm>
#include <map>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/core/update_inputs.h"
#include "passes/distribution/distribute.h"
#include "passes/distribution/optimizer_shards.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

class Sharder {
 public:
  Sharder(const Graph& graph, const PassContext& context)
      : graph_(graph),
        ranks_(context.mesh.size("data")),
        place_(context.mesh.place(context.rank, "data")),
        uses_(graph),
        averaged_(averaged_values(graph)),
        rewriter_(graph) {
    if (context.storage)
      for (const StoredGroup& group : context.storage->groups)
        if (group.shard && group.shard->axis == "data") shards_[group.members[0]] = group.parts[0];
    for (const Node& node : graph.nodes())
      if (updates_shards(node)) updates_.insert(&node);
    find_scattered();
  }

  Graph run() {
    for (const Node& node : graph_.nodes()) {
      if (reads_gathered(node)) gather();
      rewriter_.begin_nodes_from({&node});
      visit(node);
      for (const ValueId output : node.outputs)
        if (travels_flat_.contains(output)) flat(output);
      rewriter_.end_nodes_from();
      if (bytes_ >= kBucketBytes) gather();
    }
    gather();
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  bool updates_shards(const Node& node) const {
    const UpdateInputs inputs = update_inputs(node);
    if (inputs.moments.empty()) return false;
    const ValueInfo& moment = graph_.value(node.inputs[inputs.moments[0]]);
    return moment.kind == ValueKind::kState && shards_.contains(moment.index);
  }

  // Averaged values of which only this rank's part is needed. What is made of another's elements is so where all that is
  // made of it is: hence from the last node to the first.
  void find_scattered() {
    for (auto node = graph_.nodes().rbegin(); node != graph_.nodes().rend(); ++node)
      for (size_t i = 0; i < node->outputs.size(); ++i) {
        const ValueId value = node->outputs[i];
        if (!averaged_.contains(value) || !needs_part_alone(value)) continue;
        scattered_.insert(value);
        if (is<ops::AllReduce>(*node)) travels_flat_.insert(node->inputs[i]);
      }
  }

  bool needs_part_alone(ValueId value) const {
    const std::vector<NodeId>& readers = uses_.readers(value);
    int reads = 0;
    for (const NodeId id : readers) {
      const Node& reader = graph_.node(id);
      reads += static_cast<int>(std::count(reader.inputs.begin(), reader.inputs.end(), value));
      if (!is<ops::SumSquares>(reader) && !updates_.contains(&reader) &&
          !(reader.outputs.size() == 1 && scattered_.contains(reader.outputs[0])))
        return false;
    }
    return !readers.empty() && reads == uses_.count(value) && is_divided(graph_.type(value), ranks_);
  }

  void visit(const Node& node) {
    if (norms_.contains(&node)) return;
    if (is<ops::SumSquares>(node) && has_parts(node)) return emit_norms(node);
    if (updates_.contains(&node)) return emit_update(node);
    if (std::none_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId output) { return scattered_.contains(output); }))
      return rewriter_.copy(node);
    if (is<ops::AllReduce>(node)) return emit_average(node);
    std::vector<Value> inputs;
    for (const ValueId input : node.inputs)
      inputs.push_back(scattered_.contains(input) ? part(input) : rewriter_.map(input));
    parts_[node.outputs[0]] = emit_node(*node.op, node.attributes, inputs)[0];
    rewriter_.replace(node, {Value()});
  }

  Value flat(ValueId value) {
    Value& made = flat_[value];
    if (!made) made = reshape(rewriter_.map(value), Shape{graph_.type(value).shape.numel()});
    return made;
  }

  // This rank's, flat.
  Value part(ValueId value) {
    Value& made = parts_[value];
    const int64_t count = graph_.type(value).numel() / ranks_;
    if (!made) made = narrow(flat(value), 0, Dim(place_ * count), Dim(count));
    return made;
  }

  // Some of its results whole, of the others this rank's part.
  void emit_average(const Node& node) {
    std::vector<Value> whole, shared;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool is_shared = scattered_.contains(node.outputs[i]);
      (is_shared ? shared : whole)
          .push_back(is_shared ? flat(node.inputs[i]) : rewriter_.map(node.inputs[i]));
    }
    if (!whole.empty()) whole = all_reduce(whole, "data", RankReduction::kMean);
    shared = reduce_scatter(shared, "data", ranks_, RankReduction::kMean);
    std::vector<Value> results(node.outputs.size());
    for (size_t i = 0, w = 0, s = 0; i < results.size(); ++i)
      if (scattered_.contains(node.outputs[i]))
        parts_[node.outputs[i]] = shared[s++];
      else
        results[i] = whole[w++];
    rewriter_.replace(node, results);
  }

  bool is_shared(ValueId value) const {
    return averaged_.contains(value) && is_divided(graph_.type(value), ranks_);
  }
  bool has_parts(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return is_shared(v); });
  }

  // Those behind `first` whose inputs are all there by then are summed with it, so that one exchange does for all.
  std::vector<const Node*> norms_from(const Node& first) const {
    const int32_t here = id_of(graph_, first).index;
    const auto is_there = [&](ValueId value) {
      const ValueInfo& info = graph_.value(value);
      return info.kind != ValueKind::kNode || info.producer.index < here;
    };
    std::vector<const Node*> norms;
    for (size_t i = static_cast<size_t>(here); i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (is<ops::SumSquares>(node) && has_parts(node) &&
          std::all_of(node.inputs.begin(), node.inputs.end(), is_there))
        norms.push_back(&node);
    }
    return norms;
  }

  void emit_norms(const Node& first) {
    const std::vector<const Node*> norms = norms_from(first);
    std::vector<Value> sums;
    for (const Node* node : norms) {
      std::vector<Value> shared;
      for (const ValueId input : node->inputs)
        if (is_shared(input)) shared.push_back(part(input));
      sums.push_back(emit_node(*node->op, node->attributes, shared)[0]);
    }
    sums = all_reduce(sums, "data");
    for (size_t i = 0; i < norms.size(); ++i) {
      std::vector<Value> whole;
      for (const ValueId input : norms[i]->inputs)
        if (!is_shared(input)) whole.push_back(rewriter_.map(input));
      if (!whole.empty()) sums[i] = sums[i] + emit_node(*norms[i]->op, norms[i]->attributes, whole)[0];
      rewriter_.replace(*norms[i], {sums[i]});
      norms_.insert(norms[i]);
    }
  }

  void emit_update(const Node& node) {
    const UpdateInputs at = update_inputs(node);
    std::vector<Value> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto moment = std::find(at.moments.begin(), at.moments.end(), i);
      if (moment != at.moments.end())
        inputs.push_back(rewriter_.graph().state(shards_.at(graph_.value(node.inputs[i]).index)));
      else
        inputs.push_back(i == at.parameter || i == at.gradient ? part(node.inputs[i])
                                                               : rewriter_.map(node.inputs[i]));
    }
    const std::vector<Value> results = emit_node(*node.op, node.attributes, inputs);
    for (size_t k = 0; k < at.moments.size(); ++k) {
      const int32_t moment = graph_.value(node.inputs[at.moments[k]]).index;
      rewriter_.drop_update(moment);
      rewriter_.graph().add_update(shards_.at(moment), results[1 + k]);
    }
    rewriter_.replace(node, std::vector<Value>(node.outputs.size()));
    updated_.push_back({&node, results[0]});
    bytes_ += graph_.type(node.outputs[0]).bytes();
  }

  bool reads_gathered(const Node& node) const {
    return std::any_of(updated_.begin(), updated_.end(), [&](const auto& update) {
      const ValueId parameter = update.first->outputs[0];
      return std::find(node.inputs.begin(), node.inputs.end(), parameter) != node.inputs.end();
    });
  }

  // The new parameters, whole, of the updates since the last time.
  void gather() {
    if (updated_.empty()) return;
    std::vector<const Node*> nodes;
    std::vector<Value> parts;
    for (const auto& [node, value] : updated_) {
      nodes.push_back(node);
      parts.push_back(value);
    }
    rewriter_.begin_nodes_from(nodes);
    const std::vector<Value> whole = all_gather(parts, "data", ranks_);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const ValueId parameter = nodes[i]->outputs[0];
      rewriter_.replace(parameter, reshape(whole[i], graph_.type(parameter).shape));
    }
    rewriter_.end_nodes_from();
    updated_.clear();
    bytes_ = 0;
  }

  const Graph& graph_;
  const int64_t ranks_, place_;
  const Uses uses_;
  const std::set<ValueId> averaged_;
  Rewriter rewriter_;
  std::map<int32_t, int32_t> shards_;  // by state that is kept as one: the state with this rank's part
  std::set<const Node*> updates_;      // of such
  std::set<ValueId> scattered_;        // averaged values of which this rank has its part alone
  std::set<ValueId> travels_flat_;     // what they are averages of
  std::map<ValueId, Value> flat_, parts_;
  std::set<const Node*> norms_;                         // done
  std::vector<std::pair<const Node*, Value>> updated_;  // updates whose parameters are still to be gathered
  int64_t bytes_ = 0;                                   // of those
};

}  // namespace

Graph shard_optimizer(const Graph& graph, const PassContext& context) {
  if (context.mesh.size("data") == 1 || averaged_values(graph).empty())
    return copy_graph(graph, graph.model());
  return Sharder(graph, context).run();
}

}  // namespace genesis::passes
