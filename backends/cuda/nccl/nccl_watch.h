// Keeps a run over NCCL from hanging: a thread watches all communicators and how long the host has waited for the
// GPU. After a failure, here or reported by another rank, it aborts the communicators, so that kernels that wait for
// another rank end and the host's waits return.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/nccl/nccl_api.h"
#include "backends/rank_link.h"

namespace genesis::cuda::nccl {

class Watch {
 public:
  // `name` is this rank's name in messages. `other_failure` returns the failure of another rank, or an empty text
  // while there is none; it may be null.
  Watch(std::string name, int device, const RankLimits& limits, std::function<std::string()> other_failure);
  ~Watch();  // destroys the communicators if they were not aborted

  // Takes ownership of `comm`.
  Comm* add(Comm* comm);
  bool has_failed() const { return has_failed_; }
  std::string failure() const;
  // Records a failure; the first one stays. Any thread may call this; the watching thread aborts the communicators.
  void fail(const std::string& why);
  // Calls NCCL by `body` unless the run has failed. Returns false if the run had failed or the call fails.
  bool call(const char* what, const std::function<Result()>& body);

  // Adds a function that lets work on this GPU go on that waits for other ranks without NCCL. Once the run has
  // failed, the watching thread calls it repeatedly. Returns a number for forget_release().
  int add_release(std::function<void()> release);
  void forget_release(int number);

 private:
  void watch();
  void look();
  void abort_all();
  bool release_all();  // returns whether there was anything to release
  void destroy_all();

  std::string name_;
  int device_;
  RankLimits limits_;
  std::function<std::string()> other_failure_;
  std::atomic<bool> has_failed_ = false;
  mutable std::mutex failure_mutex_;
  std::string failure_;
  std::mutex calls_;                    // locked during each NCCL call on our communicators
  std::atomic<double> call_begun_ = 0;  // steady time in seconds when the current call began; 0: none
  std::vector<Comm*> comms_;
  bool aborted_ = false;
  std::mutex releases_mutex_;
  std::map<int, std::function<void()>> releases_;
  int last_release_ = 0;
  std::mutex ending_mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace genesis::cuda::nccl
