// Measures the time of generating a text.
#pragma once

#include <chrono>

namespace genesis::text {

// Adds the seconds of its lifetime to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  const Clock::time_point begin_ = Clock::now();
};

// Measures seconds since its construction, without those in `left_out`.
class WorkClock {
 public:
  double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() - left_out;
  }
  double left_out = 0;

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace genesis::text
