// Placing blocks one by one in a fixed order, and the portfolio of orders tried before any search. On the
// graphs of neural networks one of these orders nearly always meets the lower bound.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "passes/memory/offsets/offset_problem.h"

namespace genesis::passes {

enum class Fit {
  kOnTop,  // above everything already placed in its sections: O(log n), leaves holes for good
  kFirst,  // in the lowest gap that is large enough
  kBest,   // in the smallest gap that is large enough
};

// Places all blocks in `order`. Gives up (and returns a height over `give_up_over`, offsets unusable) as soon
// as a block ends above that.
Solution place_in_order(const Problem& problem, std::span<const int32_t> order, Fit fit,
                        int64_t give_up_over = std::numeric_limits<int64_t>::max());

// The best of a fixed list of orders and fits; stops at the lower bound. `budget` is in units of about a
// nanosecond; orders whose estimated cost goes beyond it are left out, though one cheap order is always
// tried.
Solution solve_greedily(const Problem& problem, int64_t budget);

}  // namespace genesis::passes
