// Quantized GEMVs on chips that copy into shared memory by themselves and start kernels early (compute capability 9.0): a warp
// has the next weights on their way while it multiplies. Used by quantized_stream_linear.cpp.
#pragma once

#include <string>

#include "backends/cuda/gemm/quantized/quantized_gemv.h"

namespace genesis::cuda {

// How it is laid over the chip: the figures say what is fast on an H100.
struct WeightStream {
  int warps = 8;              // of a block, 16 at most
  int blocks = 1;             // on a multiprocessor
  int rows = 4;               // of weights that a warp has at once: 2 or 4
  int ring_bytes = 96 << 10;  // of weights that a block asks for ahead
  int part_bytes = 2048;      // of a row in one piece
};

// Why the weights cannot be copied so, or x leaves them no room; empty: they can. By sizes alone, on a chip with
// as much shared memory as an H100.
std::string quantized_stream_declines(const QuantizedGemv& gemv);

// False, and nothing started, where they cannot, buffers begin elsewhere than at eight elements or the chip is older.
bool try_streamed_quantized_gemv(DType dtype, QuantizedGemv gemv, const void* x, const Launch& launch,
                                 const WeightStream& stream = {});

}  // namespace genesis::cuda
