// A few rows of x against q8 or q4 weights [n, k] (schema/encoding/weight_format.h) of one layer or several, read as they
// are. Each block first makes bytes of x (device/byte_product.h) in shared memory, of x normalised where there is a norm.
// quantized_gemv.cu has the kernel for every chip and every k; ../quantized_stream has another that adds up in an order of its
// own. Used by quantized_linear.cpp.
#pragma once

#include <cstdint>

#include "backends/cuda/gemm/quantized/quantized_gemv_problem.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/core/dtype.h"

namespace genesis::cuda {

// Null, or why not: more rows or longer ones than shared memory holds.
const char* why_no_quantized_gemv(int64_t m, int64_t k);

// x [m, k] of `dtype`: f32, bf16 or f16, which results, biases, addends and the norm have, too. Quants and scales begin
// at multiples of 16 bytes.
void run_plain_quantized_gemv(DType dtype, QuantizedGemv gemv, const void* x, const Launch& launch);

// Whether x and the norm may be read eight elements at once.
bool begins_at_eights(DType dtype, const QuantizedGemv& gemv, const void* x);

}  // namespace genesis::cuda
