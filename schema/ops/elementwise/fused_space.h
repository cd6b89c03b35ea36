// The indices over which a fused program runs, with neighboring axes merged where every input covers both with one stride.
// Backends lay out their loops from it.
#pragma once

#include "schema/ops/elementwise/fused_program.h"

namespace genesis {

struct FusedSpace {
  std::vector<int64_t> sizes;  // at least one axis
  // For each input: the distance in elements between neighbors along each axis, 0 if it is broadcast there.
  std::vector<std::vector<int64_t>> strides;
};

// Merges the axes of a program. Sizes must be known. If rows are reduced, the last axis is kept as it is.
FusedSpace merged_space(const FusedProgram& program);

}  // namespace genesis
