// Packing under a ceiling in one pass, the tightest moments first: what is alive at the peak is stacked
// without a gap, and every other block follows in the order of the tightest moment it lives through. In the
// stack, lifetimes are nested, so that what is free before and after the peak stays in one piece. Strong on
// training steps, whose load has a steep peak; used by offset_search before its workers.
#pragma once

#include <cstdint>
#include <optional>

#include "passes/memory/offsets/offset_problem.h"

namespace genesis::passes {

// Tries a fixed list of such orders while `budget` (units of about a nanosecond, lowered by what they cost)
// lasts. Nothing when no order ends under the ceiling (>= problem.bound).
std::optional<Solution> pack_by_peaks(const Problem& problem, int64_t ceiling, int64_t& budget);

}  // namespace genesis::passes
