// The inner loops of products with few rows, chosen once per problem for this CPU. Rows of x are packed in groups of 8, 4, 2 or
// 1, so that the values that are used together lie side by side: rows a power of two apart would evict each other from the cache.
#pragma once

#include <cstdint>

#include "backends/cpu/simd/row_jobs.h"
#include "schema/core/dtype.h"

namespace genesis::cpu {

// Returns m plus the rows of zeros that fill the last group.
constexpr int64_t padded_rows(int64_t m) {
  const int64_t rest = m % 8;
  return m - rest + (rest > 4 ? 8 : rest > 2 ? 4 : rest);
}

struct GemvCall {
  const float* x;       // [padded_rows(m), k], packed, aligned to 64 bytes
  int64_t stride_x;     // packed_row of the whole k, even if only steps [first_k, first_k + k) are used
  int64_t first_k = 0;  // only for add_rows
  int64_t m;
  const void* weights;           // at the first step and column: [n, k] for dot_rows, [k, n] for add_rows
  const void* scales = nullptr;  // scales of the same rows if weights are quantized: f16 [n, k / 32]
  int64_t stride_w;
  int64_t n, k;
  // Only for dot_rows, which reads memory as a few long streams: n rows of the weights from each of `streams` places that lie
  // `apart` rows from each other. Sums are stored in this order.
  int64_t streams = 1, apart = 0;
  float* sums;  // [padded_rows(m), streams * n]
  int64_t stride_sums;
};

// The unpacked operand A: element (i, p) lies at i * row + p * step.
struct RowsOfA {
  const void* data;
  int64_t row, step;
  int64_t m, k;
};

struct GemvKernel {
  void (*run)(const GemvCall&) = nullptr;  // nullptr if the types are not supported
  void (*pack)(const RowsOfA&, float* x) = nullptr;
  int64_t (*packed_row)(int64_t k) = nullptr;  // elements of x per row
  int64_t streams = 6;  // the number that dot_rows reads fastest; their sums fit the registers
};

GemvKernel dot_rows_kernel(DType a, DType weights);  // sums = x weights^T
GemvKernel add_rows_kernel(DType a, DType weights);  // sums = x weights

}  // namespace genesis::cpu
