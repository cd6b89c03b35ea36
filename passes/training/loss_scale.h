// Dynamic loss scaling for training in f16, all of it in the graph, so that no step waits for the host. The
// loss is multiplied by `scale` before the backward pass, which keeps small gradients above f16's least
// number; a step whose gradients overflow nevertheless is skipped and halves the scale, and a long run of
// good steps doubles it. Used by train_step.
#pragma once

#include "passes/training/train_options.h"
#include "schema/graph/model.h"

namespace genesis::passes {

class LossScale {
 public:
  // Adds the states "optimizer.loss_scale", "optimizer.good_steps" and "optimizer.skipped_steps" (steps
  // skipped in a row, this one included) to the model.
  LossScale(Model& model, Graph& graph, const TrainOptions& options);

  Value scale() const { return scale_; }
  Value unscale() const;  // 1 / scale

  // `norm` of the gradients, before anything is clipped: not finite where one of them is not.
  void decide(Value norm);
  Value finite() const { return finite_; }  // bool: this step counts
  // A factor for gradients that tells an update op to skip (skip_nonfinite): infinity in a step to skip.
  Value or_skip(Value factor) const;

  struct Update {
    int32_t state;
    Value value;
  };
  std::vector<Update> updates() const;
  // The scale this step ran with, and how many steps in a row were skipped.
  void add_outputs(Graph& graph) const;

 private:
  int32_t scale_state_, good_state_, skipped_state_;
  int64_t interval_;
  Value scale_, good_, skipped_, finite_;
  Value next_skipped_;
};

}  // namespace genesis::passes
