// Tools of the searches for offsets: a random generator that gives the same numbers on every machine, a meter of work, and the
// conflicts between blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "passes/memory/offsets/offset_problem.h"

namespace genesis::passes {

class SearchRandom {  // splitmix64
 public:
  explicit SearchRandom(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return next() % n; }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

// Counts down units of work (about nanoseconds). Only occasionally checks the clock, and whether a worker with a smaller number
// has already reached the target.
class WorkMeter {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  WorkMeter(int64_t budget, Deadline deadline, const std::atomic<int>& winner, int worker)
      : left_(budget), deadline_(deadline), winner_(winner), worker_(worker) {}

  // Returns false if the work must stop.
  bool spend(int64_t units) {
    left_ -= units;
    until_look_ -= units;
    if (until_look_ < 0) look();
    return left_ > 0;
  }
  int64_t left() const { return left_; }

 private:
  void look() {
    until_look_ = 2'000'000;
    if (winner_.load(std::memory_order_relaxed) < worker_ || std::chrono::steady_clock::now() > deadline_)
      left_ = 0;
  }

  int64_t left_, until_look_ = 0;
  Deadline deadline_;
  const std::atomic<int>& winner_;
  int worker_;
};

class ConflictGraph {
 public:
  explicit ConflictGraph(const Problem& problem);

  std::span<const int32_t> of(int32_t block) const {
    return {others_.data() + begin_[block], others_.data() + begin_[block + 1]};
  }

 private:
  std::vector<size_t> begin_;
  std::vector<int32_t> others_;
};

}  // namespace genesis::passes
