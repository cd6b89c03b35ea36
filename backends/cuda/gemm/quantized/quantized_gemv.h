// A few rows of x against q8 or q4 weights [n, k] (schema/encoding/weight_format.h) of one layer or several, read in
// their encoding. Each block first quantizes x to bytes (device/byte_product.h) in shared memory, after the norm if
// there is one. quantized_gemv.cu has the kernel for every chip and every k; ../quantized_stream has another one,
// which adds in a different order.
#pragma once

#include <cstdint>

#include "backends/cuda/gemm/quantized/quantized_gemv_problem.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/core/dtype.h"

namespace genesis::cuda {

// Returns null, or why not: more or longer rows than shared memory holds.
const char* why_no_quantized_gemv(int64_t m, int64_t k);

// x [m, k] has `dtype` f32, bf16 or f16, as results, biases, addends and the norm have. Quants and scales start at
// multiples of 16 bytes.
void run_plain_quantized_gemv(DType dtype, QuantizedGemv gemv, const void* x, const Launch& launch);

// Returns whether x and the norm may be read eight elements at once.
bool begins_at_eights(DType dtype, const QuantizedGemv& gemv, const void* x);

}  // namespace genesis::cuda
