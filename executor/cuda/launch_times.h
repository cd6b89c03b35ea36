// Measures launches on a GPU's streams by events. Events cannot time nodes inside a graph, so timed steps are launched one by
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cuda/runtime/runtime.h"
#include "executor/runtime/runner.h"

namespace genesis {

// Returns an event that has the time at which the stream gets to it.
cuda::Event timed_event(cudaStream_t stream);
// Returns the microseconds between two such events. Both must have happened.
double microseconds_between(const cuda::Event& begin, const cuda::Event& end);

// The times of the launches of one run on several streams. A launch runs one step, or several joined ones.
class LaunchTimes {
 public:
  // Times count from what `main` has been given so far.
  explicit LaunchTimes(cudaStream_t main) : start_(timed_event(main)) {}

  // Call these right before and behind a launch, whose first step is `step`. `number` is that of its stream (StepStreams).
  void begin(size_t step, uint8_t number, cudaStream_t stream) {
    launches_.push_back({step, number, timed_event(stream), {}});
  }
  void end(cudaStream_t stream) { launches_.back().end = timed_event(stream); }

  // Returns the times by stream. All streams must have ended their work.
  Timeline timeline() const;

 private:
  struct Launch {
    size_t step;
    uint8_t stream;
    cuda::Event begin, end;
  };
  cuda::Event start_;
  std::vector<Launch> launches_;
};

}  // namespace genesis
