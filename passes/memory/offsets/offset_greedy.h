// Places blocks one by one in a fixed order, and tries a list of orders before any search. On the graphs of neural networks one
// of these orders nearly always reaches the lower bound.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "passes/memory/offsets/offset_problem.h"

namespace genesis::passes {

enum class Fit {
  kOnTop,  // above all blocks in its sections: O(log n), never fills holes
  kFirst,  // in the lowest gap that is large enough
  kBest,   // in the smallest gap that is large enough
};

// Places all blocks in `order`. Stops as soon as a block ends above `give_up_over`, and returns a height above it with unusable
// offsets.
Solution place_in_order(const Problem& problem, std::span<const int32_t> order, Fit fit,
                        int64_t give_up_over = std::numeric_limits<int64_t>::max());

// Returns the best result of a fixed list of orders and fits; stops at the lower bound. `budget` is in units of about a
// nanosecond; orders whose estimated cost exceeds the rest are skipped, but one cheap order is always tried.
Solution solve_greedily(const Problem& problem, int64_t budget);

}  // namespace genesis::passes
