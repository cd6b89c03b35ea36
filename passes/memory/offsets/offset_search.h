// Searches for better offsets if the greedy orders do not reach the lower bound. A fixed number of workers run in parallel and
// share the best solution between rounds, so that neither the number of processors nor their speed changes the result.
#pragma once

#include <chrono>
#include <cstdint>

#include "passes/memory/offsets/offset_problem.h"

namespace genesis::passes {

struct SearchLimits {
  int64_t budget = 0;  // units of work (about nanoseconds), summed over the workers
  std::chrono::steady_clock::time_point deadline;
};

// Lowers `best` as far as the limits allow, but not below `target` (>= problem.bound). Returns the work used.
int64_t improve_by_search(const Problem& problem, int64_t target, const SearchLimits& limits, Solution& best);

}  // namespace genesis::passes
