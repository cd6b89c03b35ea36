// What an optimizer does to each parameter once its gradient is there: states, the update op of its family, the settings
// of the parameter's group. Used by train_step.
#pragma once

#include <map>

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
  bool skips = false;  // a scale that is not finite means that the step is to change nothing
};

class ParameterUpdates {
 public:
  ParameterUpdates(Model& model, Graph& graph, const TrainOptions& options, const UpdateScalars& scalars)
      : model_(model), graph_(graph), options_(options), scalars_(scalars) {}

  // Adds the optimizer's states of the parameter to the model ("optimizer.<parameter>.m") and its update to the graph.
  void add(const TrainedParameter& p);
  // New values by state.
  const std::map<int32_t, Value>& results() const { return results_; }

 private:
  void update_by(const optim::SGD& o, const TrainedParameter& p);
  void update_by(const optim::Adam& o, const TrainedParameter& p);
  void update_by(const optim::AdamW& o, const TrainedParameter& p);
  void update_by(const optim::Lion& o, const TrainedParameter& p);
  void update_adam(const optim::Adam& o, bool decoupled, const TrainedParameter& p);

  Value lr_of(const TrainedParameter& p);
  double decay_of(const TrainedParameter& p) const;
  // A state of zeros, f32, in the parameter's shape.
  Value moment(const TrainedParameter& p, const std::string& name);
  void set(Value state, Value next);

  Model& model_;
  Graph& graph_;
  const TrainOptions& options_;
  const UpdateScalars scalars_;
  std::map<double, Value> rates_;  // by lr_factor: updates with one rate can be one node
  std::map<int32_t, Value> results_;
};

}  // namespace genesis::passes
