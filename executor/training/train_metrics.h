// What a training says of itself after each step. Made by the trainer, written by metrics_file.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace genesis {

struct TrainMetrics {
  int64_t step = 0;  // steps done, this one included
  double loss = 0;
  double evaluation_loss = std::nan("");  // NaN when this step had no evaluation
  // The numbers [] that the step gives beside the ones that stand here, such as an accuracy, by name; and those of the
  // evaluation, where this step had one.
  std::map<std::string, double> outputs, evaluation_outputs;
  double grad_norm = 0;                   // NaN when the step does not give it
  double learning_rate = 0;               // likewise
  double loss_scale = 0;                  // likewise: only training in f16 has one
  bool is_best = false;                   // no evaluation had a lower loss
  bool out_of_patience = false;           // the run ends here
  int64_t skipped_steps = 0;              // in a row, this one included: gradients that overflowed f16
  double seconds = 0;                     // since the run began
  double items_per_second = 0;            // of the latest steps
  std::filesystem::path checkpoint;       // the newest that this run has written; empty: none
  // For which the run stood still ahead of this step, because the step before had a checkpoint.
  double checkpoint_stall_seconds = 0;
};

}  // namespace genesis
