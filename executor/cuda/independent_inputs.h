// Finds the inputs of each step that no earlier step of the same run writes. A kernel that starts before its predecessors have
// ended may read them at once (cuda::Launch::independent).
#pragma once

#include <cstdint>
#include <vector>

#include "schema/graph/plan.h"

namespace genesis {

// Returns for each step a mask: bit i is set if input i (of the first 64) is a constant, an input of the plan, or a state that no
// earlier step writes. The step's own writes do not count.
std::vector<uint64_t> independent_inputs(const Plan& plan);

}  // namespace genesis
