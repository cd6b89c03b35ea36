// Finds which steps of a plan must wait for which, from the memory they touch, since planned buffers share addresses. A step
// waits for the writers of its inputs, and for the readers and writers of memory that it overwrites. A collective also waits for
// the collective before it, since all ranks run collectives in the same order.
#pragma once

#include <cstdint>
#include <vector>

#include "schema/graph/plan.h"
#include "schema/graph/target.h"

namespace genesis {

struct StepGraph {
  std::vector<std::vector<int32_t>> successors;  // by step, ascending, without duplicates
  std::vector<int32_t> waits;                    // by step: number of steps it waits for
  std::vector<bool> tiny;  // by step: cheaper to run at once than to hand to another thread
};

// `target` defines which steps are tiny.
StepGraph make_step_graph(const Plan& plan, const Target& target = {});

}  // namespace genesis
