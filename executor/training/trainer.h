// The training loop: batches in, train_step after train_step, metrics out, checkpoints on the way.
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

// Whether a run ends ahead of its steps, with a checkpoint: soon, or as it would after all of them, with an evaluation too.
enum class Stop { kNo, kSoon, kInOrder };

struct TrainerOptions {
  std::string entry = "train_step";
  int64_t steps = 0;                      // total, those before a resume included
  int64_t max_skipped_steps = 40;         // in a row; by then the loss scale has gone from 2^16 to 2^-24
  std::filesystem::path checkpoint = {};  // folder; empty: none
  // Of several ranks the first has the folder's lock and removes old checkpoints. The others are told the same folder and
  // rhythm, and that they are not the first: all write their parts of what is saved.
  bool is_first_rank = true;
  // With several ranks: what no other run is called, the same on all ranks (checkpoint_parts.h).
  std::string run_id = {};
  // Of that folder, when the caller holds it already; else train() takes it.
  std::shared_ptr<const CheckpointLock> checkpoint_lock = {};
  int64_t checkpoint_every = 0;  // steps; 0: only at the end
  int keep_checkpoints = 2;
  // Data that is not trained on (a model with passes::add_evaluation()); null: none. It is looked at every so many
  // steps, 0: only at the end, and the run ends after `patience` evaluations in a row without a new best, 0: never. With
  // checkpoints the model of the best evaluation is kept beside them as best.genesis.
  BatchSource* evaluation = nullptr;
  int64_t evaluate_every = 0, evaluation_batches = 0;  // batches: 0: once through the data
  int64_t patience = 0;
  std::filesystem::path metrics = {};                     // a JSON object a line per step; empty: none
  std::filesystem::path tensorboard = {};                 // folder for an event file; empty: none
  std::function<void(const TrainMetrics&)> on_step = {};  // after each step
  std::function<Stop()> should_stop = {};                 // asked after each step
  // Asked after each step, behind on_step: the rate that the schedule starts from in the steps to come
  // (executor/training/learning_rate.h), or nothing where it stays. All ranks give the same. Steps then never run ahead.
  std::function<std::optional<double>(const TrainMetrics&)> learning_rate = {};
  // A step starts before the result of the one ahead is read, so that a GPU has no pause between them; not where states are
  // looked at in between (an evaluation, a checkpoint, a loss scale). on_step may then see states that are a step further, and
  // a run that should stop does the step that has been started. The same on all ranks.
  bool run_ahead = false;
};

// A metrics file that is there already keeps its rows up to the step that training goes on from.
//
// Runs from the step that the session's model says it has reached (checkpoint.step) to options.steps. Throws
// Error when the loss is no longer finite, naming the step and how to find the node; in f16, where such steps
// are skipped, after max_skipped_steps in a row, naming the node. The loss of the result is NaN when there
// was no step to do. An Error of a step says which step it was and the newest checkpoint there is.
TrainMetrics train(Session& session, BatchSource& source, const TrainerOptions& options);

}  // namespace genesis
