// CUDA C++ for a reduction: the kernels of reduce_kit.h with its sizes as constants. Used by
// kernels/tensor/reduce.cpp. Needs neither a GPU nor NVRTC.
#pragma once

#include <string>

#include "backends/cuda/codegen/reduce_plan.h"

namespace genesis::cuda {

// `accumulator` is a type of reduce_kit.h, such as "SumSoFar<float>"; `divisor` is what a variance is divided
// by.
struct Reduction {
  std::string accumulator;
  DType in, out;
  double divisor = 1;
};

// Kernels `packed` and `single` as in fused_source.h; parameters: the addresses of input, output, partial
// results and counters in one struct; the number of rows as i64.
std::string reduce_source(const Reduction& reduction, const ReducePlan& plan);

}  // namespace genesis::cuda
