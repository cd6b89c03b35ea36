// The settings of a training job (train_job.h). Messages name a setting as the flag of `genesis-run train` that sets it:
// "--checkpoint-every" is checkpoint_every.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "executor/training/trainer.h"
#include "models/data/sources.h"
#include "models/jobs/data_request.h"
#include "passes/lora/lora.h"

namespace genesis::jobs {

// The reasons why a job should stop.
struct StopVote {
  int asked = 0;  // the number that TrainJob::should_stop returned, such as a signal; 0: nobody asks
  bool time_up = false;
};

struct TrainJob {
  std::string model;  // a .genesis file, or a folder of checkpoints: its newest
  std::vector<std::string>
      data;  // .txt, .jsonl, folders of them, a folder of pictures, .safetensors, NAME=FILE.npy
  data::SourceOptions source =
      {};  // sizes and order of the batches; `batch_size` counts the samples of all ranks
  TextSettings text = {};
  std::string image = {};  // preparation of pictures, such as "min_area=0.5" (images::parse_image_settings)

  // Begins a new training with this step (passes::parse_train_options), or with these adapters. Without both, the training that
  // the file brings goes on.
  std::string optimizer = {};
  passes::LoraOptions lora = {.rank = 0};  // rank 0: no adapters
  bool expert_load = false;  // a new training counts the load of experts (passes/training/expert_load.h)

  int64_t steps = 100;  // in total, those before a resume included
  double minutes = 0;   // stop after this much time, with an evaluation; 0: never
  int64_t max_skipped = TrainerOptions{}.max_skipped_steps;

  std::string output = {};                                       // the trained model; empty: none
  std::string checkpoint = {};                                   // folder; empty: none
  int64_t checkpoint_every = TrainerOptions{}.checkpoint_every;  // steps; 0: one at the end
  int64_t keep = TrainerOptions{}.keep_checkpoints;              // number of checkpoints
  bool resume = false;                         // from the newest checkpoint, if there is one
  std::string metrics = {}, tensorboard = {};  // a file of JSON lines; a folder

  // Data to evaluate on, or text.holdout. TrainerOptions has the meaning of the numbers.
  std::vector<std::string> evaluation_data = {};
  int64_t evaluate_every = 0, evaluation_batches = 0, patience = 0;

  SessionOptions session = {};  // device, threads, ZeRO stage and more; the ranks come from the World
  bool quiet = false;           // log warnings only
  OnProgress progress = {};     // called while text is tokenized

  std::function<void(const TrainMetrics&)> on_step = {};  // after each step
  // Asked after each step: a number other than 0 ends the run soon, with a checkpoint and the output, on all ranks. The result
  // returns the number.
  std::function<int()> should_stop = {};

  bool evaluates() const { return !evaluation_data.empty() || text.holdout > 0; }
  bool begins_training() const { return lora.rank > 0 || !optimizer.empty(); }
  // Returns the settings that determine the order of the samples, as flags. A resumed run with another order is another run.
  std::string data_order() const;
};

}  // namespace genesis::jobs
