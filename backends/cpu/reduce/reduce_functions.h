// The inner loops of reductions as tables of plain functions, one table per (operation, dtype): SIMD for f32, bf16 and f16, plain
// loops for the rest. The callers own shapes, threads and the order of summation. An accumulator is f32 for f32, bf16 and f16;
// f64 for f64; i64 for sums and products of integers; else the dtype itself.
#pragma once

#include <cstdint>

#include "schema/core/dtype.h"

namespace genesis::cpu {

enum class Reduce : uint8_t { kSum, kProd, kMax, kMin, kAny, kAll };

struct ReduceFunctions {
  int64_t accumulator = 0;  // bytes of one accumulator, at most 8; 0 = there is no such reduction
  // *acc = the reduction of x[0, n); the identity for n = 0.
  void (*span)(const void* x, int64_t n, void* acc) = nullptr;
  // acc[j] = the reduction of x[r * stride + j] over r in [0, rows), for j in [0, width). rows may be 0.
  void (*columns)(const void* x, int64_t rows, int64_t width, int64_t stride, void* acc) = nullptr;
  // acc[j] = acc[j] op other[j] for j in [0, n).
  void (*merge)(void* acc, const void* other, int64_t n) = nullptr;
  // y[j] = acc[j] / divisor, rounded to the result's dtype. `divisor` only applies to f32 and f64 accumulators.
  void (*finish)(const void* acc, void* y, int64_t n, double divisor) = nullptr;
};

ReduceFunctions reduce_functions(Reduce op, DType dtype);         // dtype of the input
ReduceFunctions reduce_functions_plain(Reduce op, DType dtype);   // not for f32, bf16, f16
ReduceFunctions reduce_functions_vector(Reduce op, DType dtype);  // for f32, bf16, f16

// Variance and logsumexp reduce a row to two numbers, which are merged in double.
struct PairState {
  double a, b;  // (mean, sum of squared deviations) or (greatest element, sum of exp(x - greatest))
};
struct PairFunctions {
  PairState (*span)(const void* x, int64_t n) = nullptr;  // 0 < n, short enough for x to stay in the L1 cache
  PairState (*merge)(PairState left, int64_t left_n, PairState right, int64_t right_n) = nullptr;
};
enum class PairReduce : uint8_t { kMoments, kLogSumExp };
PairFunctions pair_functions(PairReduce op, DType dtype);
PairFunctions pair_functions_vector(PairReduce op, DType dtype);  // for f32, bf16, f16

}  // namespace genesis::cpu
