// Orders the launches of a plan's steps on several streams, by events: a step waits for those that StepStreams names. During a
// capture the events become edges of the graph.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cuda/runtime/runtime.h"
#include "executor/cuda/step_streams.h"

namespace genesis {

// The streams of a plan by number (StepStreams): the main stream, and those beside it, which are made when they are first needed.
class PlanStreams {
 public:
  explicit PlanStreams(cudaStream_t main) : main_(main) {}

  // Makes the streams that this assignment uses.
  void prepare(const StepStreams& streams);
  cudaStream_t at(uint8_t number) const {
    return number == StepStreams::kMain ? main_ : beside_[number].get();
  }

 private:
  cudaStream_t main_;
  std::array<cuda::Stream, StepStreams::kStreams> beside_;  // for captures only: in a graph they are branches
};

// One start of all steps, in the plan's order. If the start is captured, the object must live until the capture ends.
class StreamOrder {
 public:
  // Everything launched on the main stream so far precedes the steps.
  StreamOrder(const StepStreams& assigned, const PlanStreams& streams);

  // Makes the stream of this step wait for the steps that it waits for.
  void wait_before(size_t step) const;
  // Tells that steps [first, end) have been launched on the stream of the first.
  void launched(size_t first, size_t end);
  // Makes the main stream wait for all steps of the others. Call it behind the last step.
  void join();

 private:
  const StepStreams& assigned_;
  const PlanStreams& streams_;
  cuda::Event begin_;
  std::vector<bool> awaited_;      // by step: another stream waits for it
  std::vector<cuda::Event> done_;  // by step, if it is awaited
  std::vector<cuda::Event> ends_;  // the ends of the streams beside the main stream
};

}  // namespace genesis
