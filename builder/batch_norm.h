// Parameters, running statistics and their updates, which the layers BatchNorm1d, BatchNorm2d and BatchNorm3d share.
#pragma once

#include "builder/scope.h"

namespace genesis::nn {

struct BatchNormStates {
  Parameter weight, bias, running_mean,
      running_var;  // each has `num_features` numbers; empty where the layer has none
  int64_t num_features = 0;
  double eps = 1e-5, momentum = 0.1;
};

BatchNormStates make_batch_norm(const Scope& scope, int64_t num_features, double eps, double momentum,
                                bool affine, bool track_running_stats);

// Normalizes x [N, num_features, ...] with at least `min_rank` and at most `max_rank` axes. In training it adds the running
// statistics to the entry point as state updates. Throws Error naming the layer at `path` if x does not fit.
Value run_batch_norm(const BatchNormStates& states, const std::string& path, Value x, int min_rank,
                     int max_rank);

}  // namespace genesis::nn
