// Samples of different lengths in rows of one length. Used by conversation_source.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace genesis::data {

// Which samples stand in which row: best fit of the longest first (Johnson, "Near-optimal bin packing algorithms", 1973), so
// that rows are at most 11/9 of the fewest there can be, and a few more. Lengths are at most `row`; of equal ones the first
// comes first. Takes n log n steps.
std::vector<std::vector<size_t>> pack(const std::vector<int64_t>& lengths, int64_t row);

}  // namespace genesis::data
