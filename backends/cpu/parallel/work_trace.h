// Records which thread worked on which step of a plan and when, in a traced run. The loops of parallel.h and parallel_runs.h
// report to it the step that their tasks belong to; a run without a trace pays one read of a thread-local variable per loop.
//
// The spans of a thread never overlap. A thread that waits for the end of a loop may take up a task of another step; this ends
// the outer span, which continues afterwards as a new one.
#pragma once

#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace genesis::cpu {

class WorkTrace;

// The step that the calling thread works on.
struct TracedWork {
  WorkTrace* trace = nullptr;  // null in a run that is not traced
  int32_t step = -1;
};
inline thread_local TracedWork traced_work;

class WorkTrace {
 public:
  struct Span {
    int32_t step;
    double start_us, end_us;  // since the construction of the trace
  };

  // A trace is constructed and used inside the same task arena.
  WorkTrace() : lines_(static_cast<size_t>(tbb::this_task_arena::max_concurrency())) {}

  // Runs `body` and records it as work on `step`.
  template <class Body>
  void run(int32_t step, const Body& body) {
    Line& line = lines_[static_cast<size_t>(std::max(0, tbb::this_task_arena::current_thread_index()))];
    if (line.step == step) return body();
    const Change change(*this, line, step);
    body();
  }

  // Returns the spans of each thread in order of time; empty for a thread that did nothing.
  std::vector<std::vector<Span>> spans() const {
    std::vector<std::vector<Span>> all;
    for (const Line& line : lines_) all.push_back(line.spans);
    return all;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kPause = 1;  // microseconds; spans of one step with a shorter gap are merged

  struct alignas(64) Line {
    std::vector<Span> spans;
    int32_t step = -1;  // the step the thread works on; -1 = none
    double since_us = 0;
  };

  // Switches the thread to another step, and back on destruction, also when an exception is thrown.
  class Change {
   public:
    Change(WorkTrace& trace, Line& line, int32_t step)
        : trace_(trace), line_(line), outer_(line.step), before_(traced_work) {
      traced_work = {&trace, step};
      trace_.turn_to(line_, step);
    }
    ~Change() {
      trace_.turn_to(line_, outer_);
      traced_work = before_;
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    WorkTrace& trace_;
    Line& line_;
    int32_t outer_;
    TracedWork before_;
  };

  void turn_to(Line& line, int32_t step) const {
    const double now = std::chrono::duration<double, std::micro>(Clock::now() - begin_).count();
    if (line.step >= 0) add(line.spans, {line.step, line.since_us, now});
    line.step = step;
    line.since_us = now;
  }

  static void add(std::vector<Span>& spans, const Span& span) {
    if (!spans.empty() && spans.back().step == span.step && span.start_us - spans.back().end_us < kPause)
      spans.back().end_us = span.end_us;
    else
      spans.push_back(span);
  }

  const Clock::time_point begin_ = Clock::now();
  std::vector<Line> lines_;  // indexed by the thread's number in its arena
};

// Returns `body` wrapped for the tasks of a loop: their work is recorded under the step that started the loop. `body` must
// outlive the tasks.
template <class Body>
auto traced(const Body& body) {
  return [work = traced_work, &body](const auto&... arguments) {
    if (!work.trace) return body(arguments...);
    work.trace->run(work.step, [&] { body(arguments...); });
  };
}

}  // namespace genesis::cpu
