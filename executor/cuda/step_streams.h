// Which steps of a plan run beside the others on a GPU: a small step that nobody waits for soon goes to a
// second stream, where its start and its end cost no time. Used by the CUDA runner when it captures a graph.
//
// What ranks exchange takes the second stream for itself, beside all computation. Where there is none, a step goes there
// only if, by what steps must cost at least, the step that waits for it starts earlier then. Steps that fill the chip
// gain nothing from each other and stay in their line.
#pragma once

#include <vector>

#include "executor/runtime/step_graph.h"

namespace genesis {

struct StepStreams {
  static constexpr int32_t kNothing = -2, kBegin = -1;

  std::vector<bool> aside;  // by step: whether it runs on the second stream
  std::vector<int32_t>
      waits_for;  // by step: the step of the other stream that must be done before it; kBegin:
                  // only what ran before the plan; kNothing: it follows from earlier waits
  int32_t last_aside = kNothing;  // the first stream waits for it at the end
};

// What a step takes at least, on a large GPU; only ratios matter.
double least_microseconds(const Step& step);

// Each stream runs its steps in the plan's order, so waiting for one is waiting for all before it.
StepStreams assign_streams(const Plan& plan, const StepGraph& graph);

}  // namespace genesis
