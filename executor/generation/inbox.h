// Requests and cancellations on their way to an Engine, from any thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "executor/generation/task.h"

namespace genesis::generation {

class Inbox {
 public:
  struct Mail {
    std::vector<Submission> submissions;
    std::vector<RequestId> cancelled;
  };

  RequestId submit(Request request);
  void cancel(RequestId id);

  Mail take();
  int64_t requests() const;
  bool is_empty() const;
  bool contains(RequestId id) const;  // a request that was not taken yet
  // Waits until there is mail. Returns false if there is none after this time.
  bool wait(double seconds) const;

 private:
  bool has_none() const { return mail_.submissions.empty() && mail_.cancelled.empty(); }

  mutable std::mutex mutex_;
  mutable std::condition_variable arrived_;
  Mail mail_;
  RequestId submitted_ = 0;
};

}  // namespace genesis::generation
