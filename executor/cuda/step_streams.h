// Decides which steps of a plan overlap with others on a GPU. Exchanges between ranks have their own stream. A small step whose
// result is not needed soon goes to a second stream, which hides its launch and its end.
//
// A small step goes there only if, by the minimum costs of steps, the first step that waits for it then starts earlier. Steps
// that fill the GPU gain nothing from overlap and stay on the main stream.
#pragma once

#include <array>
#include <vector>

#include "executor/runtime/step_graph.h"
#include "schema/graph/target.h"

namespace genesis {

struct StepStreams {
  static constexpr size_t kStreams = 3;
  static constexpr uint8_t kMain = 0, kAside = 1, kExchange = 2;
  static constexpr int32_t kNothing = -2, kBegin = -1;
  // By stream: the last of its steps that must be done first. kBegin (main stream): only the work before the plan. kNothing: no
  // wait, or implied by earlier waits.
  using Waits = std::array<int32_t, kStreams>;
  static constexpr Waits kNoWaits = {kNothing, kNothing, kNothing};

  std::vector<uint8_t> stream;   // by step
  std::vector<Waits> waits_for;  // by step
  // By stream: its last step, for which the main stream waits at the end; kNothing: it has no steps.
  Waits last = kNoWaits;

  // Returns an assignment with all steps on the main stream, one after the other.
  static StepStreams one_line(size_t steps) {
    return {.stream = std::vector<uint8_t>(steps, kMain), .waits_for = std::vector<Waits>(steps, kNoWaits)};
  }
};

// Returns the minimum duration of a step at these speeds.
double least_microseconds(const Step& step, const StreamSpeeds& speeds);

// Each stream runs its steps in the plan's order, so waiting for one step is waiting for all steps before it on that stream.
StepStreams assign_streams(const Plan& plan, const StepGraph& graph, const StreamSpeeds& speeds);

}  // namespace genesis
