// Applies the optimizer to each parameter once its gradient is known: adds the optimizer's states and the update op, with the
// settings of the parameter's group.
//
// With moments=8bit Adam keeps moments as codes (schema/core/moment_codes.h), except those of small parameters and of embeddings,
// whose rows have gradients in few steps: both stay f32, as with bitsandbytes and transformers.
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

// The scalars that all updates of a step share.
struct UpdateScalars {
  Value lr;            // f32 scalar
  Value step;          // i64 scalar, 1 in the first step
  Value scale;         // factor of the gradients; empty: 1
  Value counts;    // bool scalar: false if the step must change nothing, and `scale` is then not finite; empty: true
};

class ParameterUpdates {
 public:
  // `loss` is the graph that is differentiated.
  ParameterUpdates(Model& model, Graph& graph, const Graph& loss, const TrainOptions& options,
                   const UpdateScalars& scalars);

  // Adds the optimizer's states for the parameter to the model ("optimizer.<parameter>.m"; codes also have
  // "optimizer.<parameter>.m_scales") and its update to the graph.
  void add(const TrainedParameter& p);
  // Returns the new values by state.
  const std::map<int32_t, Value>& results() const { return results_; }

 private:
  void update_by(const optim::SGD& o, const TrainedParameter& p);
  void update_by(const optim::Adam& o, const TrainedParameter& p);
  void update_by(const optim::AdamW& o, const TrainedParameter& p);
  void update_by(const optim::Lion& o, const TrainedParameter& p);
  void update_by(const optim::Muon& o, const TrainedParameter& p);
  void update_adam(const optim::Adam& o, bool decoupled, const TrainedParameter& p, double lr_factor = 1);

  bool takes_muon(const TrainedParameter& p) const;
  // Returns the rate times `factor` and the factor of the parameter's group.
  Value lr_of(const TrainedParameter& p, double factor = 1);
  double decay_of(const TrainedParameter& p) const;
  // Returns whether Adam keeps the parameter's moments as codes of 8 bits.
  bool has_moment_codes(const optim::Adam& o, const TrainedParameter& p) const;
  // Adds a state of zeros: an f32 with the parameter's shape, or of another type.
  Value moment(const TrainedParameter& p, const std::string& name);
  Value moment(const TrainedParameter& p, const std::string& name, const TensorType& type);
  void set(Value state, Value next);

  Model& model_;
  Graph& graph_;
  const TrainOptions& options_;
  const UpdateScalars scalars_;
  const std::set<int32_t> tables_and_heads_;  // AdamW updates them if the optimizer is Muon
  const std::set<int32_t> tables_;            // their moments are never codes
  std::map<double, Value> rates_;  // by factor: updates that share a rate can become one node
  std::map<int32_t, Value> results_;
};

}  // namespace genesis::passes
