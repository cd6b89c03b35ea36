// Tells ThreadSanitizer about synchronization inside TBB, whose library is not instrumented: everything a thread did before it
// started tasks happens before them, and everything the tasks did happens before the end of the wait. Use it wherever tasks are
// started; without -fsanitize=thread it compiles to nothing. It announces only these edges, so real races are still found.
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
// TBB copies a body into its tasks where the sanitizer cannot see it, so only a function with this attribute may read what the
// body captured.
#define GENESIS_TASK_BODY __attribute__((no_sanitize("thread")))
#else
#define GENESIS_TASK_BODY
#endif

namespace genesis {

// Everything before hand_over(at) happens before everything after take_over(at).
#ifdef GENESIS_THREAD_SANITIZER
inline void hand_over(void* at) { __tsan_release(at); }
inline void take_over(void* at) { __tsan_acquire(at); }
#else
inline void hand_over(void*) {}
inline void take_over(void*) {}
#endif

// Surrounds one blocking start of tasks: `TaskEdges edges; tbb::parallel_for(..., edges.around(body));`
class TaskEdges {
 public:
  TaskEdges() { hand_over(&started_); }
  ~TaskEdges() { take_over(&done_); }
  TaskEdges(const TaskEdges&) = delete;
  TaskEdges& operator=(const TaskEdges&) = delete;

  // Returns `body` with both edges around each call. `body` must outlive the tasks.
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
