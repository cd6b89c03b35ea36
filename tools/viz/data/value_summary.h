// What the values of a tensor are like: `ValueSummary` of tools/viz/page/data.d.ts.
#pragma once

#include <cstdint>
#include <vector>

#include "schema/core/tensor.h"
#include "tools/viz/data/columns.h"

namespace genesis::viz {

// A piece of a tensor as numbers, so that gigabytes are never there twice.
std::vector<double> numbers_of(const Tensor& tensor, int64_t first, int64_t count);

// Goes over all values twice.
Json value_summary(const Tensor& tensor);

}  // namespace genesis::viz
