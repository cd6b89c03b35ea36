// The indices a fused program runs over, with neighbouring axes merged wherever every input steps over both
// in one stride: how backends lay out their loops. Used by backends/cpu/fused/tile_space.cpp and
// backends/cuda/codegen/fused_plan.cpp.
#pragma once

#include "schema/ops/elementwise/fused_program.h"

namespace genesis {

struct FusedSpace {
  std::vector<int64_t> sizes;  // at least one axis
  // By input: elements from one index to the next along each axis, 0 where it is broadcast.
  std::vector<std::vector<int64_t>> strides;
};

// Sizes must be known. Where rows are reduced, the last axis is left as it is.
FusedSpace merged_space(const FusedProgram& program);

}  // namespace genesis
