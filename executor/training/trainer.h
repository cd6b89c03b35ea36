// The training loop: takes batches, runs training steps, and writes metrics and checkpoints.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "executor/session.h"
#include "executor/training/batch_source.h"
#include "executor/training/checkpoint_lock.h"
#include "executor/training/train_metrics.h"

namespace genesis {

// A request to end a run early with a checkpoint: soon, or in the same way as after all steps, with an evaluation too.
enum class Stop { kNo, kSoon, kInOrder };

struct TrainerOptions {
  std::string entry = "train_step";
  int64_t steps = 0;                      // total, including steps before a resume
  int64_t max_skipped_steps = 40;         // in a row; by then the loss scale has dropped from 2^16 to 2^-24
  std::filesystem::path checkpoint = {};  // folder; empty: none
  // With several ranks the first one holds the folder's lock and removes old checkpoints. All ranks get the same folder and
  // interval, and all write their shards of checkpoints.
  bool is_first_rank = true;
  // With several ranks: a name that no other run has, the same on all ranks (checkpoint_shards.h).
  std::string run_id = {};
  // The lock of the checkpoint folder if the caller holds it already; otherwise train() takes it.
  std::shared_ptr<const CheckpointLock> checkpoint_lock = {};
  int64_t checkpoint_every = 0;  // steps; 0: only at the end
  int keep_checkpoints = 2;
  // Data to evaluate on, for a model with passes::add_evaluation(); null: none. Evaluates every `evaluate_every` steps (0: only
  // at the end) and ends the run after `patience` evaluations in a row without a new best loss (0: never). With checkpoints, the
  // model of the best evaluation is kept beside them as best.genesis.
  BatchSource* evaluation = nullptr;
  int64_t evaluate_every = 0, evaluation_batches = 0;  // batches: at most one pass; 0: one pass
  int64_t patience = 0;
  std::filesystem::path metrics = {};      // file, one JSON object per line and step; empty: none
  std::filesystem::path tensorboard = {};  // folder for an event file; empty: none
  std::function<void(const TrainMetrics&)> on_step = {};  // after each step
  std::function<Stop()> should_stop = {};                 // called after each step
  // Called after each step, after on_step: returns the base rate of the schedule for the following steps
  // (executor/training/learning_rate.h), or nothing to keep it. All ranks must return the same. Steps then never run ahead.
  std::function<std::optional<double>(const TrainMetrics&)> learning_rate = {};
  // Starts a step before the result of the previous one is read, so that a GPU does not idle between them; except where states
  // are used in between (an evaluation, a checkpoint, a loss scale). on_step may then see states that are one step further, and a
  // run that is asked to stop finishes the step that has been started. Must be the same on all ranks.
  bool run_ahead = false;
};

// Trains from the step that the session's model has reached (checkpoint.step) to options.steps. An existing metrics file keeps
// its rows up to the step that training continues from.
//
// Throws Error if the loss is no longer finite, naming the step and how to find the node. In f16, where such steps are skipped,
// throws after max_skipped_steps in a row, naming the node. An Error of a step names the step and the newest checkpoint. The loss
// of the result is NaN if there was no step to do.
TrainMetrics train(Session& session, BatchSource& source, const TrainerOptions& options);

}  // namespace genesis
