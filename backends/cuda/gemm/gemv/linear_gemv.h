// linear of a few rows of x by GEMVs: code shared by its kernel table rows, which differ in the kernel that they
// start and in the nodes that it declines.
#pragma once

#include "backends/cuda/gemm/gemv/gemv.h"
#include "backends/kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

// Describes weight `weight` of the node as a product.
GemmProblem gemv_problem(const KernelQuery& query, const ops::Linear& op, size_t weight);
// Declines what no GEMV kernel supports; each kernel decides on a norm itself.
std::optional<std::string> linear_gemv_declines(const KernelQuery& query, const ops::Linear& op);

// Prepares and runs a node with any kernel. If the kernel does not start, start_gemv() runs; if a buffer does not
// start at a multiple of 16 bytes, the decomposition of the node runs.
std::shared_ptr<const void> prepare_linear_gemv(const KernelQuery& query);
int64_t linear_gemv_scratch(const KernelQuery& query);
void run_linear_gemv(const KernelContext& c, StartGemv kernel);

}  // namespace genesis::cuda
