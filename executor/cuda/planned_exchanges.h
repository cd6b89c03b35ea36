// Tells the ranks what a graph that is about to be captured will exchange, and what of it runs beside other steps. All
// ranks of a run capture the same graphs at the same places of it. Throws Error.
#pragma once

#include <vector>

#include "backends/collectives.h"
#include "executor/cuda/step_streams.h"
#include "executor/runtime/step_call.h"

namespace genesis {

void plan_exchanges(Collectives& ranks, const std::vector<StepCall>& calls, const StepStreams& streams,
                    const StreamSpeeds& speeds);

}  // namespace genesis
