#include "executor/training/checkpoint_writer.h"

#include <chrono>
#include <utility>

#include "executor/environment.h"
#include "executor/snapshot.h"
#include "executor/training/checkpoint.h"
#include "executor/training/checkpoint_names.h"
#include "executor/training/checkpoint_shards.h"
#include "schema/core/parallel.h"
#include "schema/messages/log.h"

namespace genesis {

CheckpointWriter::CheckpointWriter(Session& session, std::filesystem::path directory, int keep,
                                   std::string run)
    : session_(session),
      directory_(std::move(directory)),
      keep_(keep),
      run_(std::move(run)),
      snapshot_(make_state_snapshot(session)) {}

CheckpointWriter::~CheckpointWriter() {
  settle();
  try {
    check();
  } catch (const std::exception& error) {
    log_error("{}", error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::prepare() {
  if (std::exchange(is_prepared_, true)) return;
  start([this, layout = snapshot_->layout()] {
    try {
      beside_ = snapshot_->reserve(layout);
    } catch (const std::exception& error) {
      log_debug("memory for checkpoints: {}", error.what());
    }
    if (!beside_)
      log_warning(
          "the host has no {} bytes to spare for copies of the states: training will stand still while "
          "checkpoints are written",
          layout.bytes + layout.decoded_bytes);
  });
}

double CheckpointWriter::begin(int64_t step) {
  const auto start_time = std::chrono::steady_clock::now();
  finish();
  if (beside_ && snapshot_->take())
    start([this, step] { write_taken(step); });
  else
    write_now(step);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_time).count();
}

void CheckpointWriter::write_now(int64_t step) {
  if (is_shard()) return write_shard_of(step, *snapshot_->shard_now());
  set_newest(save_checkpoint(session_, directory_, step, keep_).path);
}

void CheckpointWriter::write_taken(int64_t step) {
  if (is_shard()) return write_shard_of(step, *snapshot_->shard());
  set_newest(write_checkpoint(*snapshot_->model(), directory_, step, keep_).path);
}

// Writes this rank's shard; the first rank also writes the checkpoint.
void CheckpointWriter::write_shard_of(int64_t step, Model& shard) {
  const StateShards& shards = snapshot_->shards();
  write_shard(shard, checkpoint_path(directory_, step), shards.rank, run_);
  if (shards.rank != 0) return;
  Model model(snapshot_->session_model());
  const ExpectedShards expected{.run = run_,
                                .given_up = [this] { return snapshot_->failure_of_ranks(); },
                                .seconds = environment().collective_timeout};
  const auto join = [&](Model& named, const std::filesystem::path& path) {
    join_shards(named, shards, path, expected);
  };
  set_newest(write_checkpoint(model, directory_, step, keep_, join).path);
}

void CheckpointWriter::set_newest(const std::filesystem::path& path) {
  const std::lock_guard lock(mutex_);
  newest_ = path;
}

void CheckpointWriter::check() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void CheckpointWriter::finish() {
  settle();
  check();
}

void CheckpointWriter::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !work_; });
}

std::filesystem::path CheckpointWriter::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

void CheckpointWriter::start(std::function<void()> what) {
  {
    const std::lock_guard lock(mutex_);
    work_ = std::move(what);
  }
  if (!thread_.joinable()) thread_ = start_thread([this] { work(); });
  changed_.notify_all();
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return work_ || ending_; });
    if (!work_) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      work_();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace genesis
