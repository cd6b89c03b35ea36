// linear of the rows that decoding a batch of texts has: code shared by its kernel table rows, which differ in the
// kernel that they start and in the nodes that it declines.
#pragma once

#include "backends/cuda/gemm/skinny/skinny_gemm.h"
#include "backends/kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

// Describes weight `weight` of the node as a product.
GemmProblem skinny_problem(const KernelQuery& query, const ops::Linear& op, size_t weight);
// Declines nodes that none of these kernels takes.
std::optional<std::string> linear_skinny_gemm_declines(const KernelQuery& query, const ops::Linear& op,
                                                       int64_t fewest_rows);

// Starts the kernel; returns false and starts nothing if it cannot run here.
using StartSkinnyGemm = bool (*)(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const Launch& launch);
// Prepares and runs a node with any kernel. If the kernel does not start, skinny_gemm runs, which has no norm. For
// nodes with a norm, and if a buffer does not start at a multiple of 16 bytes, a library product or the decomposition
// runs.
std::shared_ptr<const void> prepare_linear_skinny_gemm(const KernelQuery& query);
int64_t linear_skinny_gemm_scratch(const KernelQuery& query);
void run_linear_skinny_gemm(const KernelContext& c, StartSkinnyGemm start);

}  // namespace genesis::cuda
