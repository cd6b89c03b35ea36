// linear of q8 and q4 weights as a quantized GEMV: what its rows have in common, which differ in the kernel that they start. Used
// by quantized_linear.cpp and ../quantized_stream.
#pragma once

#include "backends/cuda/gemm/quantized/quantized_gemv.h"
#include "backends/kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

std::optional<std::string> quantized_linear_declines(const KernelQuery& query);
// What sizes and attributes say; data is filled in by a run.
QuantizedGemv described_gemv(const ops::Linear& op, int64_t rows, int64_t k);
// With the data of a run.
QuantizedGemv quantized_gemv_of(const KernelContext& c);

}  // namespace genesis::cuda
