#include "passes/distribution/pipeline/split_stages.h"

#include <algorithm>
#include <set>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/distribution/pipeline/stage_list.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/collective/point_to_point.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

const std::string kAxis = kPipelineAxis;

// Returns, by state of the model, the stage that keeps it.
std::vector<int64_t> owners_of(const Graph& graph, const StateStorage& storage) {
  std::vector<int64_t> owners(graph.model().states().size(), kEveryStage);
  for (const StoredGroup& group : storage.groups)
    if (group.shard && group.shard->owner)
      owners[static_cast<size_t>(group.members[0])] = *group.shard->owner;
  return owners;
}

class Splitter {
 public:
  Splitter(const Graph& graph, const PassContext& context)
      : graph_(graph),
        stages_(context.mesh.size(kAxis)),
        stage_(context.mesh.place(context.rank, kAxis)),
        phases_(phases_of(graph)),
        assignment_(assign_stages(graph, phases_, owners_of(graph, *context.storage))),
        rewriter_(graph) {
    for (const StoredGroup& group : context.storage->groups)
      if (group.shard && group.shard->owner == stage_) kept_[group.members[0]] = group.parts[0];
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      if (const auto kept = kept_.find(state_of(graph, id)); kept != kept_.end())
        rewriter_.replace(id, rewriter_.graph().state(kept->second));
    }
  }

  Graph run() {
    const StageList list = list_stages(graph_, phases_, assignment_, stages_);
    for (size_t i = 0; i <= list.nodes.size(); ++i) {
      if (const auto at = list.transfers.find(i); at != list.transfers.end())
        for (const Transfer& transfer : at->second) exchange(transfer);
      if (i < list.nodes.size()) visit(list.nodes[i]);
    }
    for (const NamedValue& output : graph_.outputs()) add_up(output.value);
    for (const StateUpdate& update : graph_.updates()) add_up(update.value);
    update_states();
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  void exchange(const Transfer& transfer) {
    if (transfer.from != stage_ && transfer.to != stage_) return;
    const Node* maker = producer(graph_, transfer.value);
    if (maker) rewriter_.begin_nodes_from({maker});
    if (transfer.from == stage_)
      send(rewriter_.map(transfer.value), kAxis, transfer.to);
    else
      rewriter_.replace(transfer.value,
                        recv(rewriter_.graph(), kAxis, transfer.from, graph_.type(transfer.value)));
    if (maker) rewriter_.end_nodes_from();
  }

  void visit(size_t index) {
    const Node& node = graph_.nodes()[index];
    const int64_t stage = assignment_.nodes[index];
    if (stage == kWhereInputsAre) return emit_own(node);
    if (stage == kEveryStage && is_sum_of_summands(node)) {
      summands_.insert(node.outputs[0]);
      return rewriter_.copy(node);
    }
    for (const ValueId input : node.inputs) add_up(input);
    if (stage == kEveryStage || stage == stage_) rewriter_.copy(node);
  }

  // Emits a node of which each stage computes its own inputs.
  void emit_own(const Node& node) {
    for (const ValueId input : node.inputs) add_up(input);
    rewriter_.begin_nodes_from({&node});
    is<ops::AllReduce>(node) ? emit_own_means(node) : emit_summand(node);
    rewriter_.end_nodes_from();
  }

  int64_t stage_of(ValueId value) const { return assignment_.values[static_cast<size_t>(value.index)]; }

  void emit_own_means(const Node& node) {
    std::vector<Value> own;
    std::vector<ValueId> outputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (stage_of(node.inputs[i]) != stage_ && stage_of(node.inputs[i]) != kEveryStage) continue;
      own.push_back(rewriter_.map(node.inputs[i]));
      outputs.push_back(node.outputs[i]);
    }
    if (own.empty()) return;
    const std::vector<Value> results = emit_node(*node.op, node.attributes, own);
    for (size_t i = 0; i < outputs.size(); ++i) rewriter_.replace(outputs[i], results[i]);
  }

  // Emits a summand of a sum over all stages: the squares of this stage's inputs, or, for a concatenation of numbers, this
  // stage's numbers and zeros for the others. The first stage counts values that all stages have.
  void emit_summand(const Node& node) {
    const TensorType& type = graph_.type(node.outputs[0]);
    std::vector<Value> own;
    for (const ValueId input : node.inputs) {
      const int64_t stage = stage_of(input) == kEveryStage ? 0 : stage_of(input);
      if (stage == stage_)
        own.push_back(rewriter_.map(input));
      else if (is<ops::Concat>(node))
        own.push_back(zeros(rewriter_.graph(), graph_.type(input).shape, graph_.type(input).dtype));
    }
    rewriter_.replace(node, {own.empty() ? zeros(rewriter_.graph(), type.shape, type.dtype)
                                         : cast(emit_node(*node.op, node.attributes, own)[0], type.dtype)});
    summands_.insert(node.outputs[0]);
  }

  // Returns whether the node is linear and all its inputs are summands of sums over the stages: then its result is such a
  // summand too.
  bool is_sum_of_summands(const Node& node) const {
    return is<ops::Cast, ops::Reshape, ops::Concat, ops::Sum, ops::Add>(node) && !node.inputs.empty() &&
           std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId input) { return summands_.contains(input); });
  }

  // Completes the sum by an all_reduce over all stages, each of which has a summand.
  void add_up(ValueId value) {
    if (summands_.erase(value) > 0) rewriter_.replace(value, all_reduce(rewriter_.map(value), kAxis));
  }

  void update_states() {
    for (const StateUpdate& update : graph_.updates()) {
      if (assignment_.states[static_cast<size_t>(update.state)] == kEveryStage) continue;
      rewriter_.drop_update(update.state);
      if (const auto kept = kept_.find(update.state); kept != kept_.end())
        rewriter_.graph().add_update(kept->second, rewriter_.map(update.value));
    }
  }

  const Graph& graph_;
  const int64_t stages_, stage_;
  const StepPhases phases_;
  const StageAssignment assignment_;
  Rewriter rewriter_;
  std::map<int32_t, int32_t> kept_;  // by state that this stage keeps: the state that holds it
  std::set<ValueId> summands_;       // values of which every stage has a summand
};

}  // namespace

Graph split_stages(const Graph& graph, const PassContext& context) {
  if (context.mesh.size(kAxis) == 1 || !context.storage) return graph.share();
  const Graph live = without_dead_nodes(graph);  // values that nothing reads need not be sent
  return Splitter(live, context).run();
}

}  // namespace genesis::passes
