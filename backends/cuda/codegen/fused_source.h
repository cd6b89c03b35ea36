// Writes CUDA C++ for a fused program: the program becomes one kernel, where the CPU interprets it tile by tile.
// Needs neither a GPU nor NVRTC.
#pragma once

#include <string>

#include "backends/cuda/codegen/fused_plan.h"

namespace genesis::cuda {

// Writes two extern "C" kernels with the same result and grid: `packed`, for buffers that start at multiples of 16
// bytes, and `single`, for any. Their parameters: the addresses of the inputs and then of the outputs in one struct;
// the number of elements (or rows) as i64; a FaultReport.
std::string fused_source(const FusedProgram& program, const FusedPlan& plan);

}  // namespace genesis::cuda
