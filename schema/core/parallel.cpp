// Runs on TBB's threads, like the rest of the library: as many as this process may use, even if other work runs on them.
#include "schema/core/parallel.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

#include "schema/core/error.h"
#include "schema/core/task_edges.h"

namespace genesis {
namespace {

// Ranges that threads claim one by one.
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
        next_ = count_;  // no thread begins another range
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
  const int64_t workers = std::min<int64_t>(tbb::this_task_arena::max_concurrency(), pieces);
  Ranges ranges(count, grain, body);
  const auto work = [&](int64_t) { ranges.work(); };
  if (workers == 1) {
    work(0);
  } else {
    TaskEdges edges;
    // Isolates the work: a thread that waits here must not take up other tasks, which might wait for something the caller holds.
    tbb::this_task_arena::isolate(
        [&] { tbb::parallel_for(int64_t{0}, workers, edges.around(work), tbb::simple_partitioner()); });
  }
  ranges.rethrow();
}

std::thread start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    fail("no thread could be started ({}): there is no memory for its stack, or this user may start no more",
         error.code().message());
  }
}

}  // namespace genesis
