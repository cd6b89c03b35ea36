// The least time that each step of a plan can take on a device, by the peaks that were measured on it (executor/runtime/peaks.h).
// Used by profile and bench.
#pragma once

#include <vector>

#include "executor/runtime/cost.h"
#include "executor/runtime/peaks.h"

namespace genesis {

// By step, in microseconds: the larger of two times, that of its products at the full rate, and that of its bytes at the speed of the
// nearest memory that can hold them while the entry point runs again and again. Values in the arena, which neighbouring steps share,
// count as held by any cache that they fit in; states, constants and inputs only by a cache that holds all that a run touches
// between two uses of them. 0 where the work of a step depends on data.
std::vector<double> least_microseconds(const Plan& plan, const DevicePeaks& peaks);

}  // namespace genesis
