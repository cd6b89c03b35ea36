// A few rows of x against quantized weights: the arguments of all kernels of quantized_gemv.h.
#pragma once

#include <cstdint>

#include "schema/encoding/weight_format.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

struct QuantizedGemv {
  struct Layer {
    const void *quants = nullptr, *scales = nullptr, *bias = nullptr;
    const void* addend = nullptr;  // [m, n], laid out as y; null: none
    void* y = nullptr;
    int64_t n = 0;
    int64_t first = 0;  // the layer's first block, or first group of rows; set at launch
  };
  static constexpr int kMaxLayers = 8, kMaxRows = 8;

  WeightFormat format = WeightFormat::kQ8;
  int m = 0, layers = 1;       // `layers`: for a swiglu, gate and up
  int64_t k = 0;               // a multiple of 32
  bool swiglu = false;         // one result from the two layers
  bool wide = false;           // y and the addend are f32 for any dtype of x; not for a swiglu
  bool aligned = false;        // x and the norm are read eight elements at once; set at launch
  bool independent = false;    // all weights may be read before the kernels ahead have ended
  const void* norm = nullptr;  // weight [k] of an rms_norm of x ahead of the product; null: none
  float eps = 0;
  Activation activation = Activation::kNone;
  Layer layer[kMaxLayers];
};

}  // namespace genesis::cuda
