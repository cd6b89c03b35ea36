// Optimizer updates as ops, with PyTorch's formulas: a whole training step is one graph. All state is f32;
// results may be written over their inputs. `lr` and `step` are scalars computed in the graph (step: i64, 1
// in the first run).
#pragma once

#include "schema/graph.h"

namespace genesis {

struct SgdOptions {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
struct ParameterAndMomentum {
  Value parameter, momentum;
};
// momentum_buffer is empty when options.momentum is 0. In step 1 the buffer becomes the gradient itself, as
// in PyTorch.
ParameterAndMomentum sgd_update(Value parameter, Value gradient, Value momentum_buffer, Value lr, Value step,
                                const SgdOptions& options);

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;  // AdamW: p -= lr * weight_decay * p; otherwise Adam: gradient += weight_decay * p
};
struct AdamResult {
  Value parameter, m, v;
};
// scale multiplies the gradient first (clipping folded in); may be empty.
AdamResult adam_update(Value parameter, Value gradient, Value m, Value v, Value lr, Value step,
                       const AdamOptions& options, Value scale = {});

struct LionOptions {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};
ParameterAndMomentum lion_update(Value parameter, Value gradient, Value momentum, Value lr,
                                 const LionOptions& options, Value scale = {});

Value global_norm(const std::vector<Value>& gradients);  // sqrt of the sum of all squares, f32 scalar
Value clip_scale(Value norm, double max_norm);           // min(1, max_norm / (norm + 1e-6))
Value clip_by_value(Value gradient, double limit);

}  // namespace genesis
