// A run over NCCL that does not hang: a thread looks at all communicators, and at how long the host has waited for the GPU.
// What has failed, here or by another rank's word, aborts the communicators, so that kernels that wait for another rank
// end and the host's waits return.
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
  // `name` of this rank, for messages. `other_failure` says what has failed elsewhere, empty while nothing has; may be null.
  Watch(std::string name, int device, const RankLimits& limits, std::function<std::string()> other_failure);
  ~Watch();  // destroys the communicators, or has aborted them

  // Takes `comm` over.
  Comm* add(Comm* comm);
  bool has_failed() const { return has_failed_; }
  std::string failure() const;
  // The first stays. Any thread may call it; communicators are aborted by the thread that watches.
  void fail(const std::string& why);
  // A call of NCCL, unless the run has failed: false then, and when it fails.
  bool call(const char* what, const std::function<Result()>& body);

  // Something that lets work on this GPU go on which waits for other ranks without NCCL: called again and again, by the
  // thread that watches, once the run has failed. The number is for forget_release().
  int add_release(std::function<void()> release);
  void forget_release(int number);

 private:
  void watch();
  void look();
  void abort_all();
  bool release_all();  // whether there was anything
  void destroy_all();

  std::string name_;
  int device_;
  RankLimits limits_;
  std::function<std::string()> other_failure_;
  std::atomic<bool> has_failed_ = false;
  mutable std::mutex failure_mutex_;
  std::string failure_;
  std::mutex calls_;                    // of NCCL with our communicators
  std::atomic<double> call_begun_ = 0;  // when the one that goes on began, in seconds; 0: none
  std::vector<Comm*> comms_;
  bool aborted_ = false;
  std::mutex releases_mutex_;
  std::map<int, std::function<void()>> releases_;
  int last_release_ = 0;
  std::mutex ending_mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_;  // last, since it uses the others
};

}  // namespace genesis::cuda::nccl
