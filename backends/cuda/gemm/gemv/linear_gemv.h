// linear of a few rows of x by GEMVs: what its rows have in common, which differ in the kernel that they start and in what that
// declines. Used by linear_gemv.cpp and ../gemv_prefetch.
#pragma once

#include "backends/cuda/gemm/gemv/gemv.h"
#include "backends/kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

// Weight `weight` of the node as a product.
GemmProblem gemv_problem(const KernelQuery& query, const ops::Linear& op, size_t weight);
// What holds for all such kernels; a norm is the kernel's own affair.
std::optional<std::string> linear_gemv_declines(const KernelQuery& query, const ops::Linear& op);

// With these a row is run by any kernel: where it does not start, start_gemv() does, and where a buffer is no multiple of
// 16 bytes, the parts that the node stands for.
std::shared_ptr<const void> prepare_linear_gemv(const KernelQuery& query);
int64_t linear_gemv_scratch(const KernelQuery& query);
void run_linear_gemv(const KernelContext& c, StartGemv kernel);

}  // namespace genesis::cuda
