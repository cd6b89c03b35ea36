// Packs samples of different lengths into rows of one length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace genesis::data {

// Returns the samples of each row. Uses best-fit decreasing (Johnson, "Near-optimal bin packing algorithms", 1973), so that the
// number of rows is at most 11/9 of the minimum plus a small constant. Lengths are at most `row`; samples of equal length keep
// their order. Takes O(n log n).
std::vector<std::vector<size_t>> pack(const std::vector<int64_t>& lengths, int64_t row);

}  // namespace genesis::data
