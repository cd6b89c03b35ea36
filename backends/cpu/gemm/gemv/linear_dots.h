// Runs a `linear` node with few rows of x as Dots (gemm_dots.h): all weights of the node in one parallel region, so that a
// decoding step starts and joins its threads once for q, k and v, and once for gate and up. `kernel` holds the inner loops. It
// implements `gemv` and, for quantized weights, `quantized_gemv`.
#pragma once

#include "backends/cpu/gemm/gemv/gemm_dots.h"
#include "backends/kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cpu {

// Returns the products of the node, one per weight.
std::vector<GemmProblem> problems_of(const KernelQuery& query, const ops::Linear& op);

std::shared_ptr<const void> prepare_linear_dots(const KernelQuery& query, const GemvKernel& kernel);
int64_t linear_dots_scratch(const KernelQuery& query, const GemvKernel& kernel);
void run_linear_dots(const KernelContext& c);

}  // namespace genesis::cpu
