#include "backends/cuda/nccl/nccl_watch.h"

#include <fmt/format.h>

#include <chrono>

#include "backends/cuda/runtime/runtime.h"
#include "backends/process_limit.h"
#include "schema/core/parallel.h"

namespace genesis::cuda::nccl {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr auto kReleaseEvery = std::chrono::milliseconds(1);  // a run may have hundreds of waits ahead
constexpr int kReleasesBeforeAbort = 500;                     // ncclCommAbort may wait for released work
constexpr double kAbortWithin = 10;                           // seconds

}  // namespace

Watch::Watch(std::string name, int device, const RankLimits& limits,
             std::function<std::string()> other_failure)
    : name_(std::move(name)), device_(device), limits_(limits), other_failure_(std::move(other_failure)) {
  thread_ = start_thread([this] { watch(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(ending_mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (has_failed_) abort_all();
  if (!aborted_) destroy_all();
}

Comm* Watch::add(Comm* comm) {
  const std::lock_guard lock(calls_);
  comms_.push_back(comm);
  return comm;
}

std::string Watch::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void Watch::fail(const std::string& why) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (has_failed_) return;
    failure_ = why;
    has_failed_ = true;
  }
  wake_.notify_all();
}

bool Watch::call(const char* what, const std::function<Result()>& body) {
  const std::lock_guard lock(calls_);
  if (has_failed_) return false;
  call_begun_ = steady_seconds();
  const Result result = body();
  call_begun_ = 0;
  if (result == kSuccess || result == kInProgress) return true;
  const char* more = comms_.empty() ? nullptr : api().last_error(comms_[0]);
  fail(fmt::format("{}: NCCL failed in {}: {} ({})", name_, what, api().error_string(result),
                   more ? more : ""));
  return false;
}

void Watch::watch() {
  cudaSetDevice(device_);
  int releases = 0;
  for (std::unique_lock lock(ending_mutex_); !ending_;) {
    wake_.wait_for(lock, has_failed_ ? kReleaseEvery : kLookEvery);
    if (ending_) continue;
    if (!has_failed_) look();
    if (!has_failed_) continue;
    const bool has_released = release_all() && ++releases < kReleasesBeforeAbort;
    if (!aborted_ && !has_released) abort_all();
  }
}

int Watch::add_release(std::function<void()> release) {
  const std::lock_guard lock(releases_mutex_);
  releases_[++last_release_] = std::move(release);
  return last_release_;
}

void Watch::forget_release(int number) {
  const std::lock_guard lock(releases_mutex_);
  releases_.erase(number);
}

bool Watch::release_all() {
  const std::lock_guard lock(releases_mutex_);
  for (const auto& [number, release] : releases_) release();
  return !releases_.empty();
}

// Errors of another rank appear as errors of the communicators, or as a wait that does not end.
void Watch::look() {
  if (const std::string other = other_failure_ ? other_failure_() : ""; !other.empty()) fail(other);
  const double waited = seconds_waited();
  if (waited > limits_.call)
    fail(fmt::format("{} has waited for its GPU for {:.0f} s: another rank does not answer", name_, waited));
  const double begun = call_begun_;
  if (begun > 0 && steady_seconds() - begun > limits_.call)
    fail(
        fmt::format("{} has waited in NCCL for {:.0f} s: another rank does not answer", name_, limits_.call));
  const std::unique_lock lock(calls_, std::try_to_lock);
  if (!lock) return;
  for (Comm* comm : comms_) {
    Result error = kSuccess;
    api().get_async_error(comm, &error);
    if (error == kSuccess || error == kInProgress) continue;
    const char* more = api().last_error(comm);
    return fail(fmt::format("{}: NCCL lost another rank: {} ({})", name_, api().error_string(error),
                            more ? more : ""));
  }
}

// NCCL cannot abandon a call that waits for a rank that never comes: neither the call that another thread is in nor
// ncclCommAbort. The ProcessLimit then ends the process.
void Watch::abort_all() {
  const ProcessLimit limit(kAbortWithin, failure());
  const std::lock_guard lock(calls_);
  if (aborted_) return;
  aborted_ = true;
  for (auto comm = comms_.rbegin(); comm != comms_.rend(); ++comm) api().abort(*comm);
}

// All ranks of a host destroy their communicators together, after the last one has written its files.
void Watch::destroy_all() {
  const ProcessLimit limit(limits_.call, name_ + " has waited in NCCL for the other ranks to end");
  for (auto comm = comms_.rbegin(); comm != comms_.rend(); ++comm) api().destroy(*comm);
}

}  // namespace genesis::cuda::nccl
