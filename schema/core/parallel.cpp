// Threads of the standard library, started for one call: the work takes seconds or is done by the caller alone.
#include "schema/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace genesis {
namespace {

// Ranges that threads take one by one.
class Ranges {
 public:
  using Body = std::function<void(int64_t, int64_t)>;
  Ranges(int64_t count, int64_t grain, const Body& body) : count_(count), grain_(grain), body_(body) {}

  void work() noexcept {
    for (int64_t first; (first = next_.fetch_add(grain_)) < count_;) {
      try {
        body_(first, std::min(first + grain_, count_));
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_ = count_;  // nobody begins another one
      }
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const int64_t count_, grain_;
  const Body& body_;
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

void in_parallel(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  const int64_t pieces = (count + grain - 1) / grain;
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  Ranges ranges(count, grain, body);
  {
    std::vector<std::jthread> helpers;
    try {
      for (int64_t i = 1; i < std::min(cores, pieces); ++i) helpers.emplace_back([&] { ranges.work(); });
    } catch (const std::system_error&) {
      // No more threads are allowed: those that there are do it.
    }
    ranges.work();
  }
  ranges.rethrow();
}

}  // namespace genesis
