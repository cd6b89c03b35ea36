// Dynamic loss scaling for training in f16, all of it in the graph, so that no step waits for the host. The loss is multiplied
// by `scale` before the backward pass, which keeps small gradients above f16's smallest number. A step whose gradients overflow
// is skipped and halves the scale; a long run of good steps doubles it.
#pragma once

#include "passes/training/train_options.h"
#include "schema/graph/model.h"

namespace genesis::passes {

class LossScale {
 public:
  // Adds the states "optimizer.loss_scale", "optimizer.good_steps" and "optimizer.skipped_steps" (steps skipped in a row,
  // including this one) to the model.
  LossScale(Model& model, Graph& graph, const TrainOptions& options);

  Value scale() const { return scale_; }
  Value unscale() const;  // 1 / scale

  // Decides whether this step counts. `norm` is the gradients' norm before clipping; it is not finite if one of them is not.
  void decide(Value norm);
  Value finite() const { return finite_; }  // bool: this step counts
  // Returns a factor for gradients that tells an update op to skip (skip_nonfinite): infinity if this step is skipped, else
  // `factor`.
  Value or_skip(Value factor) const;

  struct Update {
    int32_t state;
    Value value;
  };
  std::vector<Update> updates() const;
  // Adds outputs: the scale this step ran with, and how many steps in a row were skipped.
  void add_outputs(Graph& graph) const;

 private:
  int32_t scale_state_, good_state_, skipped_state_;
  int64_t interval_;
  Value scale_, good_, skipped_, finite_;
  Value next_skipped_;
};

}  // namespace genesis::passes
