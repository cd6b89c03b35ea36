// A few rows of x against q8 or q4 weights [n, k] (schema/graph/weight_format.h) of one layer or several, read as they
// are. Each block first makes bytes of x in shared memory, by blocks of 32 with a scale each, of x normalised where there
// is a norm; then products of bytes are summed four at a time (dp4a), exactly within a block. So a sum is as near to that
// of the numbers as x is to its quants: half of 1/127 of each block's greatest magnitude. Used by
// kernels/nn/quantized_linear.cpp.
#pragma once

#include <cstdint>

#include "backends/cuda/runtime/launch.h"
#include "schema/core/dtype.h"
#include "schema/graph/weight_format.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

struct QuantizedGemv {
  struct Layer {
    const void *quants = nullptr, *scales = nullptr, *bias = nullptr;
    const void* addend = nullptr;  // [m, n], as y lies; null: none
    void* y = nullptr;
    int64_t n = 0;
    int64_t first_block = 0;  // filled in when they start
  };
  static constexpr int kMaxLayers = 8, kMaxRows = 8;

  WeightFormat format = WeightFormat::kQ8;
  int m = 0, layers = 1;       // of a swiglu: gate and up
  int64_t k = 0;               // a multiple of 32
  bool swiglu = false;         // one result, of the two layers
  const void* norm = nullptr;  // x is normalised first (rms_norm) with this weight [k]; null: as it is
  float eps = 0;
  Activation activation = Activation::kNone;
  Layer layer[kMaxLayers];
};

// Null, or why not: more rows or longer ones than shared memory holds.
const char* why_no_quantized_gemv(int64_t m, int64_t k);

// x [m, k] of `dtype`: f32, bf16 or f16, which results, biases, addends and the norm have, too. Quants and scales begin
// at multiples of 16 bytes.
void run_quantized_gemv(DType dtype, QuantizedGemv gemv, const void* x, const KernelContext& c);

}  // namespace genesis::cuda
