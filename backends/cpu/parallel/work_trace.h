// Which thread worked on which step when, in a run that is looked at. The loops of parallel.h and parallel_runs.h tell it
// whose pieces a thread takes; any other run pays one look at a variable of the thread for each loop.
//
// The spans of a thread never overlap: work inside of work (a thread that waits for a loop's end may take up another
// step) ends the outer span, which goes on behind it.
#pragma once

#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace genesis::cpu {

class WorkTrace;

// What the calling thread works on.
struct TracedWork {
  WorkTrace* trace = nullptr;  // null: nobody looks
  int32_t step = -1;
};
inline thread_local TracedWork traced_work;

class WorkTrace {
 public:
  struct Span {
    int32_t step;
    double start_us, end_us;  // since the trace was made
  };

  // Made and used inside of one task arena.
  WorkTrace() : lines_(static_cast<size_t>(tbb::this_task_arena::max_concurrency())) {}

  // Runs `body`, which is work on `step`.
  template <class Body>
  void run(int32_t step, const Body& body) {
    Line& line = lines_[static_cast<size_t>(std::max(0, tbb::this_task_arena::current_thread_index()))];
    if (line.step == step) return body();
    const Change change(*this, line, step);
    body();
  }

  // By thread, in the order of time. Empty: it had nothing to do.
  std::vector<std::vector<Span>> spans() const {
    std::vector<std::vector<Span>> all;
    for (const Line& line : lines_) all.push_back(line.spans);
    return all;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kPause = 1;  // microseconds: between two pieces of one step; a shorter one is none

  struct alignas(64) Line {
    std::vector<Span> spans;
    int32_t step = -1;  // that the thread works on; -1: none
    double since_us = 0;
  };

  // Back to what was before, also when an error rises.
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
  std::vector<Line> lines_;  // by number of the thread in its arena
};

// `body` for the tasks of a loop: what they do counts as work on the step that started the loop. It must outlive them.
template <class Body>
auto traced(const Body& body) {
  return [work = traced_work, &body](const auto&... arguments) {
    if (!work.trace) return body(arguments...);
    work.trace->run(work.step, [&] { body(arguments...); });
  };
}

}  // namespace genesis::cpu
