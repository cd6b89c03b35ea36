// Says which values were not finite before a run, so that the nodes that read them are not blamed.
#pragma once

#include <string>

#include "executor/started_runs.h"
#include "executor/states/state_memory.h"

namespace genesis {

// Names the inputs and states of the run that hold NaN or infinity; empty if none does. Of a sharded state each rank checks only
// its own shard: a gather would need all ranks, and not all of them may make this call.
std::string nonfinite_before(const Compiled& compiled, const Model& model, const StateMemory& states,
                             Device& device);

}  // namespace genesis
