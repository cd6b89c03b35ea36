// Plain data that the files of the norm kernels (norm*.cpp) share; it is fixed for a call.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schema/core/dtype.h"

namespace genesis::cpu {

// A batch of rows of n elements. weight, bias, dweight and dbias are f32 (f64 for f64), and null if the node has none.
struct NormJob {
  DType dtype = DType::f32;
  const void* x = nullptr;
  const void* dy = nullptr;  // gradients only
  void* y = nullptr;         // dx in a gradient
  const void* weight = nullptr;
  const void* bias = nullptr;
  int64_t n = 1;
  double eps = 0;
  bool center = false;  // true for layer_norm, false for rms_norm
  bool stream = false;
};

// The blocks of rows for sums over rows. Each block is summed by itself, then the blocks are added in order. The number of blocks
// depends only on the shape, so results do not depend on the number of threads.
struct RowBlocks {
  int64_t count, rows_each;

  static RowBlocks of(int64_t rows, int64_t n) {
    constexpr int64_t kElements = 32 << 10, kMax = 64;
    const int64_t count =
        std::clamp(rows * n / kElements, int64_t{1}, std::min(kMax, std::max<int64_t>(rows, 1)));
    return {count, (rows + count - 1) / count};
  }
};

// Computes rows [first, last) in f64, for which there is no SIMD code. The sums over these rows are added to dweight and dbias.
void norm_rows_f64(const NormJob& job, int64_t first, int64_t last);
void norm_gradient_rows_f64(const NormJob& job, int64_t first, int64_t last, double* dweight, double* dbias);

}  // namespace genesis::cpu
