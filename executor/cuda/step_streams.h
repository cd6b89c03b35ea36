// Which steps of a plan run beside the others on a GPU: what ranks exchange has a stream of its own, and a small step that
// nobody waits for soon goes to a second one, where its start and its end cost no time. Used by the CUDA runner when it
// captures a graph.
//
// A small step goes there only if, by what steps must cost at least, the step that waits for it starts earlier then. Steps
// that fill the chip gain nothing from each other and stay in their line.
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
  // By stream: its step that must be done first; kBegin, of the main one: only what ran before the plan; kNothing: it
  // follows from earlier waits.
  using Waits = std::array<int32_t, kStreams>;
  static constexpr Waits kNoWaits = {kNothing, kNothing, kNothing};

  std::vector<uint8_t> stream;   // by step
  std::vector<Waits> waits_for;  // by step
  // By stream: its last step, for which the main stream waits at the end; kNothing: it has none.
  Waits last = kNoWaits;

  // All steps one after the other.
  static StepStreams one_line(size_t steps) {
    return {.stream = std::vector<uint8_t>(steps, kMain), .waits_for = std::vector<Waits>(steps, kNoWaits)};
  }
};

// What a step takes at least, by these speeds.
double least_microseconds(const Step& step, const StreamSpeeds& speeds);

// Each stream runs its steps in the plan's order, so waiting for one is waiting for all before it.
StepStreams assign_streams(const Plan& plan, const StepGraph& graph, const StreamSpeeds& speeds);

}  // namespace genesis
