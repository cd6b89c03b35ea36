// Writes the checkpoints of a run beside its steps: the states are copied between two steps (StateSnapshot),
// and a thread of its own joins, hashes and writes them, then removes the old ones. The files are those that
// save_checkpoint() writes, byte for byte. Where the host has no memory for the copies, training waits until
// a checkpoint is written, as it does for one that stands alone. Of several ranks each has one of these and writes its part
// (checkpoint_parts.h); nothing is gathered, and they wait for nobody but the first, whose thread waits for all parts.
// Used by the trainer.
#pragma once

#include <condition_variable>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "executor/session.h"
#include "executor/states/state_snapshot.h"

namespace genesis {

// For the thread that runs the session, which must outlive it. Who makes one holds the folder's
// CheckpointLock; of several ranks the first does.
class CheckpointWriter {
 public:
  // `run`: what tells the parts of this run from an earlier one's, the same on all ranks.
  CheckpointWriter(Session& session, std::filesystem::path directory, int keep, std::string run = "");
  // Until the checkpoint that is being written is there; an error that nobody asked for is logged.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // After the first step, when more than one checkpoint will come: makes memory ready beside the next steps.
  // Without this every checkpoint is written by save_checkpoint().
  void prepare();
  // Between two steps: the checkpoint of `step`. Waits for the one before when that is still being written.
  // Returns the seconds that this took of the run. Throws Error as check() does.
  double begin(int64_t step);
  // Throws the Error of a checkpoint that could not be written; it names the checkpoint.
  void check();
  // Waits until everything is written; likewise.
  void finish();
  // Waits, and throws nothing: what went wrong is said by the next check().
  void settle();
  // The newest that is in its place; empty: none yet. Of several ranks the first knows.
  std::filesystem::path newest() const;

 private:
  bool is_part() const { return snapshot_->parts().ranks > 1; }
  void write_now(int64_t step);
  void write_taken(int64_t step);
  void write_part_of(int64_t step, Model& part);
  void set_newest(const std::filesystem::path& path);
  void start(std::function<void()> work);
  void work();

  Session& session_;
  const std::filesystem::path directory_;
  const int keep_;
  const std::string run_;
  const std::unique_ptr<StateSnapshot> snapshot_;
  bool is_prepared_ = false;
  bool beside_ = false;  // there is memory for copies

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // what the thread does now; empty: nothing
  std::exception_ptr failure_;
  std::filesystem::path newest_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace genesis
