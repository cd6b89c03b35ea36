// Quantized GEMVs on chips with bulk copies into shared memory and early kernel starts (compute capability 9.0): a
// warp has its next weights in flight while it multiplies.
#pragma once

#include <string>

#include "backends/cuda/gemm/quantized/quantized_gemv.h"

namespace genesis::cuda {

// Launch parameters; the default values are fast on an H100.
struct WeightStream {
  int warps = 8;              // warps per block, 16 at most
  int blocks = 1;             // blocks per multiprocessor
  int rows = 4;               // rows of weights that a warp has at once: 2 or 4
  int ring_bytes = 96 << 10;  // bytes of weights that a block has in flight
  int part_bytes = 2048;      // bytes of a row that are copied at once
};

// Returns why the weights cannot be copied in this way, or why x leaves them no space in shared memory; empty if the
// kernel can run. Considers only sizes, for a chip with as much shared memory as an H100.
std::string quantized_stream_declines(const QuantizedGemv& gemv);

// Returns false and starts nothing if the kernel declines, if a buffer does not start at a multiple of eight
// elements, or if the chip is older.
bool try_streamed_quantized_gemv(DType dtype, QuantizedGemv gemv, const void* x, const Launch& launch,
                                 const WeightStream& stream = {});

}  // namespace genesis::cuda
