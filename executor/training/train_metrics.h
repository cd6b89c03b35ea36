// The metrics of a training run after each step.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace genesis {

struct TrainMetrics {
  int64_t step = 0;  // steps done, including this one
  double loss = 0;
  double evaluation_loss = std::nan("");  // NaN if this step had no evaluation
  // The additional scalar outputs of the step by name, such as an accuracy, and those of the evaluation, if this step had one.
  std::map<std::string, double> outputs, evaluation_outputs;
  // The share of each expert in the tokens of its layer, by layer (passes/training/expert_load.h); empty: not counted.
  std::vector<std::vector<double>> expert_load;
  double grad_norm = 0;              // NaN if the step has no such output
  double learning_rate = 0;          // likewise
  double loss_scale = 0;             // likewise; only f16 training has one
  bool is_best = false;              // no evaluation had a lower loss
  bool out_of_patience = false;      // the run ends here
  int64_t skipped_steps = 0;         // in a row, including this one: gradients overflowed f16
  double seconds = 0;                // since the run began
  double items_per_second = 0;       // over the latest steps
  std::filesystem::path checkpoint;  // newest one written by this run; empty: none
  // Seconds for which the run was blocked before this step by the checkpoint of the previous step.
  double checkpoint_stall_seconds = 0;
};

}  // namespace genesis
