// A few rows of x against quantized weights as all kernels of quantized_gemv.h are told of them.
#pragma once

#include <cstdint>

#include "schema/encoding/weight_format.h"
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
  bool wide = false;           // y and the addend are f32, whatever x is; not of a swiglu
  bool aligned = false;        // x and the norm are read eight elements at once; filled in when they start
  bool independent = false;    // all weights are there before the kernels ahead have ended
  const void* norm = nullptr;  // x is normalised first (rms_norm) with this weight [k]; null: as it is
  float eps = 0;
  Activation activation = Activation::kNone;
  Layer layer[kMaxLayers];
};

}  // namespace genesis::cuda
