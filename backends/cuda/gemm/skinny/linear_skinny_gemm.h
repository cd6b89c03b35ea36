// linear of the rows that a batch of texts decodes: what its rows have in common, which differ in the kernel that they start and
// in what that declines. Used by linear_skinny_gemm.cpp and hopper/skinny.
#pragma once

#include "backends/cuda/gemm/skinny/skinny_gemm.h"
#include "backends/kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

// Weight `weight` of the node as a product.
GemmProblem skinny_problem(const KernelQuery& query, const ops::Linear& op, size_t weight);
// What holds for all such kernels.
std::optional<std::string> linear_skinny_gemm_declines(const KernelQuery& query, const ops::Linear& op,
                                                       int64_t fewest_rows);

// Starts the kernel; false, and nothing started, where it cannot run here.
using StartSkinnyGemm = bool (*)(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const Launch& launch);
// With these a row is run by any kernel. Where that does not start skinny_gemm does, which has no norm; for that, and where a buffer is
// no multiple of 16 bytes, there are the library and the parts that the node stands for.
std::shared_ptr<const void> prepare_linear_skinny_gemm(const KernelQuery& query);
int64_t linear_skinny_gemm_scratch(const KernelQuery& query);
void run_linear_skinny_gemm(const KernelContext& c, StartSkinnyGemm start);

}  // namespace genesis::cuda
