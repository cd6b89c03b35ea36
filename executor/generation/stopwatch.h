// Measures the time of generating a text, and of the runs that do it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace genesis::generation {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Adds the seconds of its lifetime to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += seconds_between(begin_, Clock::now()); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  const Clock::time_point begin_ = Clock::now();
};

// Measures seconds since its construction, without those in `left_out`.
class WorkClock {
 public:
  double now() const { return seconds_between(begin_, Clock::now()) - left_out; }
  double left_out = 0;

 private:
  const Clock::time_point begin_ = Clock::now();
};

// Counts runs and their seconds by a size of the run, such as its tokens. Class i has the sizes above 2^(i-1) up to 2^i.
class RunTimes {
 public:
  struct Class {
    int64_t runs = 0;
    double seconds = 0;
  };
  // Counts what `run` does, which may throw, as a run of this size, 1 or more, that has taken `before` seconds already.
  template <class Run>
  void measure(int64_t size, const Run& run, double before = 0) {
    size_t i = 0;
    while ((int64_t{1} << i) < size) ++i;
    Class& own = classes_[i];
    const Stopwatch watch(own.seconds);
    own.seconds += before;
    ++own.runs;
    run();
  }
  const auto& classes() const { return classes_; }

 private:
  std::array<Class, 64> classes_{};
};

// The work of an engine so far. Neither class of runs has the time in which their plans were made.
struct Work {
  // Runs that read prompts, by their tokens, padding included. The step that reads the end of a prompt and chooses the first token
  // is one of them.
  RunTimes prompts;
  // Other steps that chose tokens, by their rows. A step counts when its tokens are taken.
  RunTimes steps;
  // The sum of all calls of Engine::step(), plans and kernels that were made in them included.
  double seconds = 0;
};

}  // namespace genesis::generation
