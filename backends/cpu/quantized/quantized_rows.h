// The inner loops of products of few rows with quantized weights (schema/encoding/weight_format.h), chosen once per problem for
// this CPU: AVX2, AVX-VNNI, AVX512-VNNI or plain C++. Rows of x are quantized to bytes in blocks of 32. Products of bytes are
// summed exactly within a block; the scaled sums of blocks are added in f32. So the error of a result comes from the quantization
// of x, at most 1/254 of each block's greatest magnitude. Dots runs these loops (backends/cpu/gemm/gemv/gemm_dots.h).
#pragma once

#include <vector>

#include "backends/cpu/gemm/gemv/gemm_rows.h"
#include "schema/encoding/weight_format.h"

namespace genesis::cpu {

// Returns the fastest kernel of this CPU for x of dtype `a`: f32, bf16 or f16. A packed row of x is k bytes of quants, in an
// order of the kernel's own, then its scales in f32, filled up with zeros.
GemvKernel quantized_rows_kernel(DType a, WeightFormat format);

// Returns all kernels that this CPU can run, fastest first; the last is plain C++.
std::vector<GemvKernel> quantized_rows_kernels(DType a, WeightFormat format);

// Quantizes one row of x, k values of a dtype, to bytes in the order of x, and writes the scales of its blocks.
using ActivationQuantizer = void (*)(const void* x, int64_t k, int8_t* quants, float* scales);
ActivationQuantizer activation_quantizer(DType dtype);

}  // namespace genesis::cpu
