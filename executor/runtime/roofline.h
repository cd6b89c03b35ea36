// The minimum time of each step of a plan on a device, from measured peaks (executor/runtime/peaks.h).
#pragma once

#include <vector>

#include "executor/runtime/peaks.h"
#include "schema/graph/cost_model.h"

namespace genesis {

// Returns the microseconds of each step: the larger of the time of its multiplications at the peak rate and the time of its bytes
// at the speed of the nearest memory level that can hold them while the entry point runs repeatedly. Values in the arena, which
// neighboring steps share, are taken to be in any cache that they fit into. States, constants and inputs are taken to be in a
// cache only if it holds everything that a run touches between two uses of them. 0 if the work of a step depends on data.
std::vector<double> least_microseconds(const Plan& plan, const DevicePeaks& peaks);

}  // namespace genesis
