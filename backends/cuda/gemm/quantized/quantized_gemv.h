// A few rows of x against q8 or q4 weights [n, k] (schema/graph/weight_format.h) of one layer or several, read as they
// are. Each block first makes bytes of x (device/byte_product.h) in shared memory, of x normalised where there is a norm.
// quantized_gemv.cu has the kernel for every chip and every k; ../quantized_stream has another that adds up in an order of its
// own. Used by kernels/nn/quantized_linear.cpp.
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
    int64_t first = 0;  // the first block, or group of rows, that has a part of it; filled in when they start
  };
  static constexpr int kMaxLayers = 8, kMaxRows = 8;

  WeightFormat format = WeightFormat::kQ8;
  int m = 0, layers = 1;       // of a swiglu: gate and up
  int64_t k = 0;               // a multiple of 32
  bool swiglu = false;         // one result, of the two layers
  bool aligned = false;        // x and the norm are read eight elements at once; filled in when they start
  bool settled = false;        // all weights are there before the kernels ahead have ended
  const void* norm = nullptr;  // x is normalised first (rms_norm) with this weight [k]; null: as it is
  float eps = 0;
  Activation activation = Activation::kNone;
  Layer layer[kMaxLayers];
};

// Null, or why not: more rows or longer ones than shared memory holds.
const char* why_no_quantized_gemv(int64_t m, int64_t k);

// x [m, k] of `dtype`: f32, bf16 or f16, which results, biases, addends and the norm have, too. Quants and scales begin
// at multiples of 16 bytes.
void run_plain_quantized_gemv(DType dtype, QuantizedGemv gemv, const void* x, const Launch& launch);

// Whether x and the norm may be read eight elements at once.
bool begins_at_eights(DType dtype, const QuantizedGemv& gemv, const void* x);

}  // namespace genesis::cuda
