// Times kernels on a stream, to choose the fastest of several that compute the same.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>

#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {

inline constexpr float kNeverMs = std::numeric_limits<float>::infinity();

class Stopwatch {
 public:
  using Start = std::function<bool()>;  // starts it; returns false if it cannot run

  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {}

  // Returns the milliseconds of one run, or infinity if it cannot run. What may be faster than `best` is measured twice, and the
  // better time counts.
  float time(const Start& start, float best) {
    if (repeat(start, 1) == kNeverMs) return kNeverMs;  // loads the kernel
    const float once = repeat(start, 1);
    if (once == kNeverMs || once > kHopeless * best + 0.02f) return once;
    const int times = std::clamp(static_cast<int>(kRunMilliseconds / std::max(once, 1e-3f)), 1, 40);
    return std::min(repeat(start, times), repeat(start, times));
  }

 private:
  static constexpr float kRunMilliseconds = 1.5f;  // for which a run is repeated
  static constexpr float kHopeless = 1.25f;        // a run that takes this many times the best is not repeated

  float repeat(const Start& start, int times) {
    cudaEventRecord(begin_.get(), stream_);
    bool started = true;
    for (int i = 0; i < times; ++i) started = started && start();
    cudaEventRecord(end_.get(), stream_);
    float ms = 0;
    const bool ran =
        try_wait_for(end_.get()) && cudaEventElapsedTime(&ms, begin_.get(), end_.get()) == cudaSuccess;
    if (!started || !ran) {
      cudaGetLastError();
      return kNeverMs;
    }
    return ms / static_cast<float>(times);
  }

  cudaStream_t stream_;
  Event begin_ = make_event(true), end_ = make_event(true);
};

}  // namespace genesis::cuda
