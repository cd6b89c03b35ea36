// Packs blocks under a ceiling in one pass, the tightest moments first: the blocks that are alive at the peak are stacked
// without gaps, and every other block follows in the order of the tightest moment that it lives through. In the stack,
// lifetimes are nested, so that the free space before and after the peak stays contiguous. Strong on training steps, whose load
// has a steep peak.
#pragma once

#include <cstdint>
#include <optional>

#include "passes/memory/offsets/offset_problem.h"

namespace genesis::passes {

// Tries a fixed list of such orders while `budget` lasts (units of about a nanosecond, reduced by their cost). Returns nothing
// if no order ends under the ceiling (>= problem.bound).
std::optional<Solution> pack_by_peaks(const Problem& problem, int64_t ceiling, int64_t& budget);

}  // namespace genesis::passes
