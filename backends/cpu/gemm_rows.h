// The inner loops of products with few rows, chosen once per problem for the CPU at hand. Used by
// gemm_small.cpp only. x is [m, k] in f32, `sums` is [m, n] in f32; both have their own row stride.
#pragma once

#include <cstdint>

#include "schema/dtype.h"

namespace genesis::cpu {

struct FewRows {
  const float* x;
  int64_t stride_x;
  int64_t m;
  const void* weights;  // [n, k] for dot_rows, [k, n] for add_rows
  int64_t stride_w;
  int64_t n, k;
  float* sums;
  int64_t stride_sums;
};
using FewRowsFunction = void (*)(const FewRows&);

FewRowsFunction dot_rows_function(DType weights);  // sums = x weights^T; nullptr: no such type
FewRowsFunction add_rows_function(DType weights);  // sums = x weights, n <= kMaxAddColumns

constexpr int64_t kMaxAddColumns = 512;

}  // namespace genesis::cpu
