// Normalisation, with PyTorch's formulas.
#pragma once

#include "schema/graph.h"

namespace genesis {

// Over the last rank(weight) axes, or the last axis without a weight. weight and bias may be empty.
Value layer_norm(Value x, Value weight = {}, Value bias = {}, double eps = 1e-5);
Value rms_norm(Value x, Value weight = {}, double eps = 1e-6);

struct BatchNormResult {
  Value y, running_mean, running_var;  // the new running statistics; unchanged ones when not training
};
// x [N, C, ...]; running statistics move by `momentum`, the running variance is the unbiased one.
BatchNormResult batch_norm(Value x, Value weight, Value bias, Value running_mean, Value running_var,
                           bool training, double momentum = 0.1, double eps = 1e-5);

}  // namespace genesis
