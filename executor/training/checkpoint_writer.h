// Writes the checkpoints of a run in the background: the states are copied between two steps (StateSnapshot), then a thread
// encodes, hashes and writes them and removes old checkpoints. The files are the same as those of save_checkpoint(). If the host
// has no memory for the copies, training waits until a checkpoint is written. With several ranks each has a writer and writes its
// shard (checkpoint_shards.h); nothing is gathered, and only the first rank's thread waits, for all shards.
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

// To be used by the thread that runs the session; the session must outlive it. The caller must hold the folder's CheckpointLock;
// with several ranks, the first rank must.
class CheckpointWriter {
 public:
  // `run` distinguishes the shards of this run from those of an earlier one; it is the same on all ranks.
  CheckpointWriter(Session& session, std::filesystem::path directory, int keep, std::string run = "");
  // Waits for the checkpoint that is being written; an error that was not asked for is logged.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Reserves memory while the next steps run. Call it after the first step if more than one checkpoint will come. Without this
  // call every checkpoint is written while training waits.
  void prepare();
  // Starts the checkpoint of `step`, between two steps. Waits for the previous one if it is still being written. Returns the
  // seconds for which the run was blocked. Throws Error as check() does.
  double begin(int64_t step);
  // Throws the Error of a checkpoint that could not be written; it names the checkpoint.
  void check();
  // Waits until everything is written. Throws Error as check() does.
  void finish();
  // Waits without throwing: the next check() reports what went wrong.
  void settle();
  // Returns the newest checkpoint in place; empty: none yet. With several ranks only the first rank knows it.
  std::filesystem::path newest() const;

 private:
  bool is_shard() const { return snapshot_->shards().ranks > 1; }
  void write_now(int64_t step);
  void write_taken(int64_t step);
  void write_shard_of(int64_t step, Model& shard);
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
  std::function<void()> work_;  // the thread's current work; empty: none
  std::exception_ptr failure_;
  std::filesystem::path newest_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace genesis
