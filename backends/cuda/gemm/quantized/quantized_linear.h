// linear of q8 and q4 weights as a quantized GEMV: code shared by its kernel table rows, which differ in the kernel
// that they start.
#pragma once

#include "backends/cuda/gemm/quantized/quantized_gemv.h"
#include "backends/kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

std::optional<std::string> quantized_linear_declines(const KernelQuery& query);
// Describes the GEMV from sizes and attributes, without data.
QuantizedGemv described_gemv(const ops::Linear& op, int64_t rows, int64_t k);
// Describes the GEMV with the data of a run.
QuantizedGemv quantized_gemv_of(const KernelContext& c);

}  // namespace genesis::cuda
