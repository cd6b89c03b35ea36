// Which inputs of a step nothing writes that a run has started before it: a kernel that starts before those
// ahead of it have ended may read them at once. Used by the CUDA runner (cuda::Launch::independent).
#pragma once

#include <cstdint>
#include <vector>

#include "schema/graph/plan.h"

namespace genesis {

// By step, bit i for input i of the first 64: constants, inputs of the plan, and states that no step before
// it writes, itself not counted.
std::vector<uint64_t> independent_inputs(const Plan& plan);

}  // namespace genesis
