// What an optimizer does to each parameter once its gradient is there: states, the update op of its family, the settings
// of the parameter's group. Used by train_step.
#pragma once

#include <map>
#include <set>

#include "passes/training/train_options.h"
#include "schema/graph/model.h"

namespace genesis::passes {

struct TrainedParameter {
  int32_t state;
  Value value;
  Value gradient;
};

// What all updates of a step share.
struct UpdateScalars {
  Value lr;            // f32 scalar
  Value step;          // i64 scalar, 1 in the first step
  Value scale;         // of the gradients; empty: 1
  Value counts;    // bool scalar: false in a step that is to change nothing, whose scale is then not finite; empty: true
};

class ParameterUpdates {
 public:
  // `loss`: what is differentiated.
  ParameterUpdates(Model& model, Graph& graph, const Graph& loss, const TrainOptions& options,
                   const UpdateScalars& scalars);

  // Adds the optimizer's states of the parameter to the model ("optimizer.<parameter>.m") and its update to the graph.
  void add(const TrainedParameter& p);
  // New values by state.
  const std::map<int32_t, Value>& results() const { return results_; }

 private:
  void update_by(const optim::SGD& o, const TrainedParameter& p);
  void update_by(const optim::Adam& o, const TrainedParameter& p);
  void update_by(const optim::AdamW& o, const TrainedParameter& p);
  void update_by(const optim::Lion& o, const TrainedParameter& p);
  void update_by(const optim::Muon& o, const TrainedParameter& p);
  void update_adam(const optim::Adam& o, bool decoupled, const TrainedParameter& p, double lr_factor = 1);

  bool takes_muon(const TrainedParameter& p) const;
  // `factor` beside that of the parameter's group.
  Value lr_of(const TrainedParameter& p, double factor = 1);
  double decay_of(const TrainedParameter& p) const;
  // A state of zeros, f32, in the parameter's shape.
  Value moment(const TrainedParameter& p, const std::string& name);
  void set(Value state, Value next);

  Model& model_;
  Graph& graph_;
  const TrainOptions& options_;
  const UpdateScalars scalars_;
  const std::set<int32_t> tables_and_heads_;  // asked by Muon
  std::map<double, Value> rates_;  // by lr_factor: updates with one rate can be one node
  std::map<int32_t, Value> results_;
};

}  // namespace genesis::passes
