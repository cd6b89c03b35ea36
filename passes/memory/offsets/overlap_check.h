// An independent check of memory plans: finds two buffers that share both time and bytes. It shares nothing with the planner
// but the buffer type, so that one bug cannot hide the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "passes/memory/offsets/offset_planner.h"

namespace genesis::passes {

// Returns the indices (smaller first) of two buffers whose lifetimes and byte ranges both intersect, or nothing. Buffers of
// size zero or with empty lifetimes intersect nothing. O(n log n).
std::optional<std::pair<size_t, size_t>> find_overlap(std::span<const PlanBuffer> buffers,
                                                      std::span<const int64_t> offsets);

}  // namespace genesis::passes
