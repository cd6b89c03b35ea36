// Measures the time of generating a text.
#pragma once

#include <chrono>

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

}  // namespace genesis::generation
