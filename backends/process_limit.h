// A time limit for library calls that may never return and cannot be canceled: the startup of MPI and of NCCL waits for ranks
// that may be gone.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace genesis {

// Ends the process with status 1 if the object lives longer than `seconds`, after the line "error: <why>" on stderr. Also ends
// it, with the text of `look`, as soon as `look` returns one; a background thread calls `look` several times a second.
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
  std::thread thread_;  // last, since it uses the other members
};

}  // namespace genesis
