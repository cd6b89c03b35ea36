// Summarizes the values of a tensor: `ValueSummary` of tools/viz/page/data.d.ts.
#pragma once

#include <cstdint>
#include <vector>

#include "schema/core/tensor.h"
#include "tools/viz/data/columns.h"

namespace genesis::viz {

// Returns a range of a tensor's elements as numbers, so that a tensor of gigabytes is never copied as a whole.
std::vector<double> numbers_of(const Tensor& tensor, int64_t first, int64_t count);

// Reads all values twice.
Json value_summary(const Tensor& tensor);

}  // namespace genesis::viz
