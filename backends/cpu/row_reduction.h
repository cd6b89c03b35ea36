// Reductions of one row of contiguous elements in a lane, each in one fixed order that depends on the length
// alone. Used by the tile engine, and wherever else the same bits are wanted.
#pragma once

#include "backends/cpu/tile_functions.h"

namespace genesis::cpu {

// sum, mean, max, min of n > 0 elements; NaN wins in max and min. Null where there is none.
using RowReduction = void (*)(const void* row, int64_t n, void* result);
RowReduction find_row_reduction(std::string_view op, Lane lane);

}  // namespace genesis::cpu
