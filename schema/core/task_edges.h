// What a thread sanitizer cannot see of TBB, whose library is not instrumented: that what a thread did before
// it started tasks happens before them, and what they did before the end of the wait. Used wherever tasks are
// started; without -fsanitize=thread nothing of this exists. Only these edges are told, so real races are
// still found.
#pragma once

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GENESIS_THREAD_SANITIZER 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define GENESIS_THREAD_SANITIZER 1
#endif

#ifdef GENESIS_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
// TBB copies a body into its tasks, out of sight; so a body may read what it captured only in such a
// function.
#define GENESIS_TASK_BODY __attribute__((no_sanitize("thread")))
#else
#define GENESIS_TASK_BODY
#endif

namespace genesis {

// What happened before hand_over(at) happens before what follows take_over(at).
#ifdef GENESIS_THREAD_SANITIZER
inline void hand_over(void* at) { __tsan_release(at); }
inline void take_over(void* at) { __tsan_acquire(at); }
#else
inline void hand_over(void*) {}
inline void take_over(void*) {}
#endif

// Stands beside one blocking start of tasks: `TaskEdges edges; tbb::parallel_for(..., edges.around(body));`
class TaskEdges {
 public:
  TaskEdges() { hand_over(&started_); }
  ~TaskEdges() { take_over(&done_); }
  TaskEdges(const TaskEdges&) = delete;
  TaskEdges& operator=(const TaskEdges&) = delete;

  // `body` must outlive the tasks.
  template <class Body>
  auto around(const Body& body) {
    return [this, &body](const auto&... arguments) GENESIS_TASK_BODY {
      take_over(&started_);
      body(arguments...);
      hand_over(&done_);
    };
  }

 private:
  char started_ = 0, done_ = 0;  // only their addresses are used
};

}  // namespace genesis
