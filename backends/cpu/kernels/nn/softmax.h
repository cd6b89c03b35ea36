// Plain data that the softmax kernels pass to their SIMD code, fixed for a call.
#pragma once

#include <cstdint>

#include "schema/core/dtype.h"

namespace genesis::cpu {

struct SoftmaxJob {
  DType dtype = DType::f32;
  const void* x = nullptr;   // y in gradients
  const void* dy = nullptr;  // gradients only
  void* y = nullptr;         // dx in gradients; may be x or dy
  int64_t n = 1, inner = 1;  // sizes of the axis and of all axes after it
  double scale = 1;
  bool log = false;
  bool stream = false;
  bool causal = false;
  int64_t queries = 1;  // causal: rows per matrix

  // Returns the number of elements of row `row` that are visible.
  int64_t visible(int64_t row) const {
    if (!causal) return n;
    const int64_t seen = row % queries + (n - queries) + 1;
    return seen < 0 ? 0 : seen < n ? seen : n;
  }
};

}  // namespace genesis::cpu
