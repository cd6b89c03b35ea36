// Which steps of a plan must wait for which: found from the memory they touch, since planned buffers share
// addresses. A step waits for the writer of what it reads, and for the readers and the writer of what it
// overwrites; a collective also waits for the one before it, since all ranks run them in one order. Used by the CPU runner to run steps as soon as they are ready.
#pragma once

#include <cstdint>
#include <vector>

#include "schema/graph/plan.h"
#include "schema/graph/target.h"

namespace genesis {

struct StepGraph {
  std::vector<std::vector<int32_t>> successors;  // by step, ascending, without repeats
  std::vector<int32_t> waits;                    // by step: how many steps it waits for
  std::vector<bool> tiny;  // by step: cheaper to run at once than to hand to another thread
};

// `target` says which steps are tiny.
StepGraph make_step_graph(const Plan& plan, const Target& target = {});

}  // namespace genesis
