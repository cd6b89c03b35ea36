// An end for calls of libraries that may never return and cannot be given up: MPI's start, and NCCL's, wait for ranks that
// may be gone. Used by what links ranks (backends/rank_link.h).
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace genesis {

// While one lives longer than `seconds`, the process ends with status 1, after a line on stderr: "error: " and what `why` says.
// It does so at once with what `look` says, which a thread of its own asks several times a second, until it says something.
class ProcessLimit {
 public:
  ProcessLimit(double seconds, std::string why, std::function<std::string()> look = {});
  ~ProcessLimit();
  ProcessLimit(const ProcessLimit&) = delete;
  ProcessLimit& operator=(const ProcessLimit&) = delete;

 private:
  void watch();

  const double seconds_;
  const std::string why_;
  const std::function<std::string()> look_;
  bool over_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;  // last, since it uses the others
};

}  // namespace genesis
