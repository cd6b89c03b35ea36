// The inner loops of products of few rows with quantized weights (schema/encoding/weight_format.h), chosen once per problem
// for the CPU at hand: AVX2, AVX-VNNI, AVX512-VNNI, or plain C++. Rows of x are quantized to bytes, a block of 32 at a
// time, and products of bytes are summed up exactly within a block; what scales make of it is f32. So a sum is as near to
// that of the numbers as x is to its quants: half of 1/127 of each block's greatest magnitude. Used by Dots
// (backends/cpu/gemm/gemv/gemm_dots.h).
#pragma once

#include <vector>

#include "backends/cpu/gemm/gemv/gemm_rows.h"
#include "schema/encoding/weight_format.h"

namespace genesis::cpu {

// x of f32, bf16 or f16. A packed row of x is k bytes of quants, in an order of the kernel's own, then its scales in f32, filled up with zeros.
GemvKernel quantized_rows_kernel(DType a, WeightFormat format);

// All that this CPU can run, best first; the last is plain C++.
std::vector<GemvKernel> quantized_rows_kernels(DType a, WeightFormat format);

// Bytes of one row of x of k values of a dtype, in their order, and the scales of its blocks.
using ActivationQuantizer = void (*)(const void* x, int64_t k, int8_t* quants, float* scales);
ActivationQuantizer activation_quantizer(DType dtype);

}  // namespace genesis::cpu
