// Runs on the CPU what backends/common/moves describes: the kernels of expand, permute, flip, roll, slice, concat,
// split, pad and their kin. Running allocates nothing.
#pragma once

#include "backends/common/moves/moves.h"

namespace genesis::cpu {

void run_moves(const KernelContext& c);  // prepared<Moves>()

void run_strided_copy(const StridedCopy& copy, void* to, const void* from);

// bytes of one pattern repeated: to[i] = value, for elements of 1, 2, 4, 8 or 16 bytes.
void fill_elements(void* to, const void* value, int64_t element, int64_t count);

}  // namespace genesis::cpu
