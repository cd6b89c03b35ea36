// A few rows of x against q8 or q4 weights [n, k] (schema/encoding/weight_format.h) of one layer or several, read as they
// are. Each block first makes bytes of x (device/byte_product.h) in shared memory, of x normalised where there is a norm.
// quantized_gemv.cu has the kernel for every chip and every k, quantized_gemv_stream.cu the one for chips that copy into
// shared memory by themselves (compute capability 9.0) and start kernels early. Used by kernels/nn/quantized_linear.cpp.
#pragma once

#include <cstdint>

#include "backends/cuda/gemm/quantized_gemv_problem.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/core/dtype.h"

namespace genesis::cuda {

// Null, or why not: more rows or longer ones than shared memory holds.
const char* why_no_quantized_gemv(int64_t m, int64_t k);

// x [m, k] of `dtype`: f32, bf16 or f16, which results, biases, addends and the norm have, too. Quants and scales begin
// at multiples of 16 bytes.
void run_quantized_gemv(DType dtype, const QuantizedGemv& gemv, const void* x, const Launch& launch);

// Its two kernels. How one that streams weights is laid over the chip: the figures say what is fast on an H100.
void run_plain_quantized_gemv(DType dtype, QuantizedGemv gemv, const void* x, const Launch& launch);

struct WeightStream {
  int warps = 8;              // of a block, 16 at most
  int blocks = 1;             // on a multiprocessor
  int rows = 4;               // of weights that a warp has at once: 2 or 4
  int ring_bytes = 96 << 10;  // of weights that a block asks for ahead
  int part_bytes = 2048;      // of a row in one piece
};
// False, and nothing started, where weights cannot be copied so or the chip has no room.
bool try_streamed_quantized_gemv(DType dtype, QuantizedGemv gemv, const void* x, const Launch& launch,
                                 const WeightStream& stream = {});

}  // namespace genesis::cuda
