// CUDA C++ for a fused program: what the CPU interprets tile by tile, a GPU gets as one kernel. Used by
// kernels/tensor/elementwise.cpp. Needs neither a GPU nor NVRTC.
#pragma once

#include <string>

#include "backends/cuda/codegen/fused_plan.h"

namespace genesis::cuda {

// Two extern "C" kernels with the same result and grid: `packed`, for buffers that start at multiples of 16
// bytes, and `single`, for any. Parameters: the addresses of inputs and outputs, one after the other, in one
// struct; the number of elements (or rows) as i64; a FaultReport.
std::string fused_source(const FusedProgram& program, const FusedPlan& plan);

}  // namespace genesis::cuda
