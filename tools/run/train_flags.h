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
  passes::LoraOptions lora{.rank = 0};  // rank 0: no adapters
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
  // Throws Error if -o or --metrics names a file with other content, which would be lost. Call it before anything is
  // written.
  void check_files() const;
  // Throws UsageError for an option that does nothing in this run, since its user expects an effect.
  void check_useful(const Command& command, const Model& model) const;
  // Warns of results that will be lost because nothing is kept, or that may not fit on the disk.
  void warn_of_what_will_be_lost(const Model& model) const;
  // Stores in the model which data it was trained on. Warns if a resumed run had other data before.
  void remember_data(const std::string& content, Model& model) const;
  bool evaluates() const { return !evaluation_data.empty() || text.held_out > 0; }
  // Returns the flags that determine the order of the samples. A resumed run with another order is another run.
  std::string data_order() const;
  // Returns true if the file gets a new training step instead of continuing with its own.
  bool begins_training() const { return lora.rank > 0 || !optimizer.empty(); }

 private:
  void add_data(Command& command);
  void add_keeping(Command& command);
  void add_training(Command& command);
  void add_evaluation(Command& command);
};

}  // namespace genesis::tools
