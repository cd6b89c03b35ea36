// Runs the moves described by backends/common/moves on the CPU: the kernels of expand, permute, flip, roll, slice, concat, split,
// pad and similar ops. Running allocates no memory.
#pragma once

#include "backends/common/moves/moves.h"

namespace genesis::cpu {

void run_moves(const KernelContext& c);  // needs prepared<Moves>()

void run_strided_copy(const StridedCopy& copy, void* to, const void* from);

// Fills to[0, count) with copies of `value`, whose `element` is its size in bytes: 1, 2, 4, 8 or 16.
void fill_elements(void* to, const void* value, int64_t element, int64_t count);

}  // namespace genesis::cpu
