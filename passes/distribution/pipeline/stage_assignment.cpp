#include "passes/distribution/pipeline/stage_assignment.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/graph/model.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

class Assigner {
 public:
  Assigner(const Graph& graph, const StepPhases& phases, std::vector<int64_t> states, bool claims)
      : graph_(graph), phases_(phases), claims_(claims) {
    result_.states = std::move(states);
    result_.nodes.assign(graph.nodes().size(), kEveryStage);
    result_.values.assign(graph.values().size(), kEveryStage);
    for (const StateUpdate& update : graph.updates()) updated_.insert(update.state);
    for (size_t i = 0; i < graph.values().size(); ++i)
      if (const int32_t state = state_of(graph, {static_cast<int32_t>(i)}); state >= 0)
        result_.values[i] = result_.states[static_cast<size_t>(state)];
  }

  StageAssignment run() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i) place(i);
    return std::move(result_);
  }

 private:
  int64_t& at(ValueId value) { return result_.values[static_cast<size_t>(value.index)]; }

  void place(size_t index) {
    const Node& node = graph_.nodes()[index];
    const StepPhase phase = phases_.nodes[index].phase;
    if (phase == StepPhase::kUpdate && is<ops::AllReduce>(node)) {
      result_.nodes[index] = kWhereInputsAre;
      for (size_t i = 0; i < node.inputs.size(); ++i) at(node.outputs[i]) = at(node.inputs[i]);
      return;
    }
    const int64_t stage = stage_of(node, phase);
    result_.nodes[index] = stage;
    for (const ValueId output : node.outputs) at(output) = std::max(stage, kEveryStage);
    if (phase == StepPhase::kForward && stage >= 0)
      for (const std::string& origin : origins_of(node)) stage_of_origin_[origin] = stage;
    if (claims_ && stage >= 0) claim_states(node, stage);
  }

  int64_t stage_of(const Node& node, StepPhase phase) {
    const int64_t last = last_stage(node, [](ValueId) { return true; });
    if (phase == StepPhase::kForward || last == kEveryStage) return last;
    if (phase == StepPhase::kBackward)
      if (const auto of = stage_of_origin_.find(origins_of(node)[0]); of != stage_of_origin_.end())
        return of->second;
    if (phase == StepPhase::kUpdate) {
      if (is<ops::SumSquares>(node) || joins_numbers(node)) {
        if (is_on_several_stages(node)) return kWhereInputsAre;
        return last;
      }
      const int64_t of_state = last_stage(node, [&](ValueId v) { return state_of(graph_, v) >= 0; });
      if (of_state != kEveryStage) return of_state;
    }
    const int64_t of_tensors = last_stage(node, [&](ValueId v) { return !is_one_number(graph_.type(v)); });
    return of_tensors == kEveryStage ? last : of_tensors;
  }

  // Returns the last stage of the inputs for which counts() holds; kEveryStage if there is none.
  template <class Counts>
  int64_t last_stage(const Node& node, const Counts& counts) {
    int64_t stage = kEveryStage;
    for (const ValueId input : node.inputs)
      if (counts(input)) stage = std::max(stage, at(input));
    return stage;
  }

  bool is_on_several_stages(const Node& node) {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId input) { return at(input) != at(node.inputs[0]); });
  }

  // Returns whether the node concatenates numbers, such as the norms of several gradients.
  bool joins_numbers(const Node& node) const {
    return is<ops::Concat>(node) && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
             return is_one_number(graph_.type(input));
           });
  }

  static bool is_one_number(const TensorType& type) { return type.shape.numel() == Dim(1); }

  void claim_states(const Node& node, int64_t stage) {
    for (const ValueId input : node.inputs) {
      const int32_t index = state_of(graph_, input);
      if (index < 0 || result_.states[static_cast<size_t>(index)] != kEveryStage) continue;
      const State& state = graph_.model().state(index);
      const bool is_owned = state.role == StateRole::kParameter || state.role == StateRole::kOptimizer ||
                            (updated_.contains(index) && state.role == StateRole::kBuffer);
      if (!is_owned || is_one_number(state.type)) continue;
      result_.states[static_cast<size_t>(index)] = at(input) = stage;
    }
  }

  const Graph& graph_;
  const StepPhases& phases_;
  const bool claims_;
  StageAssignment result_;
  std::set<int32_t> updated_;
  std::map<std::string, int64_t> stage_of_origin_;  // stages of forward nodes, by the author's name
};

}  // namespace

StageAssignment assign_stages(const Graph& graph, const StepPhases& phases, std::vector<int64_t> states,
                              bool claims) {
  states.resize(graph.model().states().size(), kEveryStage);
  return Assigner(graph, phases, std::move(states), claims).run();
}

}  // namespace genesis::passes
