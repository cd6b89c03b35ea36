// Small things that the matrix product's files share. Used by gemm_*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/gemm/gemm_problem.h"
#include "schema/core/checked_size.h"
#include "schema/core/dtype.h"

namespace genesis::cpu {

constexpr int64_t kAlignment = 64;  // of scratch and its parts
constexpr int64_t kMaxBias = 4096;  // columns of one tile at most

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

double activate(double x, Activation activation);

// What a run() with these arguments adds to its products; null: nothing.
inline const void* addend_of(const GemmProblem& p, const void* c, const void* addend) {
  return !p.accumulate ? nullptr : addend ? addend : c;
}

// `bytes` further; null stays null.
inline const std::byte* advance(const void* data, int64_t bytes) {
  return data ? static_cast<const std::byte*>(data) + bytes : nullptr;
}
inline const std::byte* advance(const void* data, int64_t elements, DType dtype) {
  return advance(data, elements * static_cast<int64_t>(size_of(dtype)));
}

// bias[first, first + n) in the accumulator's type (f32 or f64).
void convert_bias(const void* bias, DType dtype, int64_t first, int64_t n, DType accumulator,
                  void* converted);

}  // namespace genesis::cpu
