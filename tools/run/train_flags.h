// The options of `genesis-run train`.
#pragma once

#include <string>
#include <vector>

#include "executor/training/trainer.h"
#include "passes/lora/lora.h"
#include "tools/common/tool.h"
#include "tools/run/train_data.h"

namespace genesis::tools {

struct TrainFlags {
  std::string file, output, checkpoint, metrics, tensorboard, optimizer;
  passes::LoraOptions lora{.rank = 0};  // rank 0: none
  std::vector<std::string> data, evaluation_data;
  int64_t steps = 100, checkpoint_every = TrainerOptions{}.checkpoint_every,
          keep = TrainerOptions{}.keep_checkpoints, max_skipped = TrainerOptions{}.max_skipped_steps;
  int64_t evaluate_every = 0, evaluation_batches = 0, patience = 0;
  double minutes = 0;
  std::string mesh;
  int zero = 0;
  bool resume = false, quiet = false, mfu = false;
  data::SourceOptions source;
  TextFlags text;
  RunFlags run;
  Output out;

  void add_to(Command& command);
  // Throws UsageError for options that need another one.
  void check_needs() const;
  // Throws Error where -o or --metrics is a file that holds something else, which would be lost. Before anything is written.
  void check_files() const;
  // Throws a usage error for an option that this run has no use for: whoever gave it expects something that will not happen.
  void check_useful(const Command& command, const Model& model) const;
  // What the run would have nowhere to write, where nothing of it is kept or a disk is full.
  void warn_of_what_will_be_lost(const Model& model) const;
  // Checkpoints tell which data they were made of, so that a run does not go on with other data in silence.
  void remember_data(const std::string& content, Model& model) const;
  bool evaluates() const { return !evaluation_data.empty() || text.held_out > 0; }
  // What says which samples come when: a run that goes on with another order is another run.
  std::string data_order() const;
  // Whether the file gets a training step, instead of going on with its own.
  bool begins_training() const { return lora.rank > 0 || !optimizer.empty(); }

 private:
  void add_data(Command& command);
  void add_keeping(Command& command);
  void add_training(Command& command);
  void add_evaluation(Command& command);
};

}  // namespace genesis::tools
