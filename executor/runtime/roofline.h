// The time that each step of a plan needs at least, by what a device can do at most (executor/runtime/peaks.h). Used
// by profile and bench.
#pragma once

#include <vector>

#include "executor/runtime/cost.h"
#include "executor/runtime/peaks.h"

namespace genesis {

// By step, in microseconds: the larger of what its products take at the full rate and what its bytes take at
// the speed of the nearest memory that can hold them when entry points run again and again. What a step
// shares with its neighbours (the arena) may lie in any cache it fits in; a state, a constant or an input
// only in one that holds all that is touched before it comes around again. 0 where a step's work depends on
// data.
std::vector<double> least_microseconds(const Plan& plan, const DevicePeaks& peaks);

}  // namespace genesis
