// linear of a few rows of x as Dots (gemm_dots.h): all weights of a node in one parallel region, so that a decoding step starts and
// joins its threads once for q, k and v, and once for gate and up. `kernel`: the inner loops. Used by the rows `gemv` and, of
// quantized weights, `quantized_gemv`.
#pragma once

#include "backends/cpu/gemm/gemv/gemm_dots.h"
#include "backends/kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cpu {

// The products of the node, one for each weight.
std::vector<GemmProblem> problems_of(const KernelQuery& query, const ops::Linear& op);

std::shared_ptr<const void> prepare_linear_dots(const KernelQuery& query, const GemvKernel& kernel);
int64_t linear_dots_scratch(const KernelQuery& query, const GemvKernel& kernel);
void run_linear_dots(const KernelContext& c);

}  // namespace genesis::cpu
