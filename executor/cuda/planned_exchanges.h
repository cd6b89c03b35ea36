// Tells the ranks which exchanges a graph about to be captured will make, and which of them overlap with other steps. All ranks
// of a run must capture the same graphs in the same order. Throws Error.
#pragma once

#include <vector>

#include "backends/collectives.h"
#include "executor/cuda/step_streams.h"
#include "executor/runtime/step_call.h"

namespace genesis {

void plan_exchanges(Collectives& ranks, const std::vector<StepCall>& calls, const StepStreams& streams,
                    const StreamSpeeds& speeds);

}  // namespace genesis
