// Writes CUDA C++ for a reduction: the kernels of reduce_kit.h with its sizes as constants. Needs neither a GPU nor
// NVRTC.
#pragma once

#include <string>

#include "backends/cuda/codegen/reduce_plan.h"

namespace genesis::cuda {

// `accumulator` is a type of reduce_kit.h, such as "SumSoFar<float>"; `divisor` is the divisor of a variance.
struct Reduction {
  std::string accumulator;
  DType in, out;
  double divisor = 1;
};

// Writes kernels `packed` and `single`, which differ as in fused_source.h. Their parameters: the addresses of input,
// output, partial results and counters in one struct; for rows, their number as i64.
std::string reduce_source(const Reduction& reduction, const ReducePlan& plan);

}  // namespace genesis::cuda
