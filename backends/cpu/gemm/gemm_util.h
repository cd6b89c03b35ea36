// Small helpers shared by the files of the matrix product.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/gemm/gemm_problem.h"
#include "schema/core/checked_size.h"
#include "schema/core/dtype.h"

namespace genesis::cpu {

constexpr int64_t kAlignment = 64;  // bytes; alignment of scratch memory and of the buffers in it
constexpr int64_t kMaxBias = 4096;  // most columns of one task of gemv.cpp

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

double activate(double x, Activation activation);

// Returns what a run() with these arguments adds to its products; null if nothing.
inline const void* addend_of(const GemmProblem& p, const void* c, const void* addend) {
  return !p.accumulate ? nullptr : addend ? addend : c;
}

// Returns data + bytes; null stays null.
inline const std::byte* advance(const void* data, int64_t bytes) {
  return data ? static_cast<const std::byte*>(data) + bytes : nullptr;
}
inline const std::byte* advance(const void* data, int64_t elements, DType dtype) {
  return advance(data, elements * static_cast<int64_t>(size_of(dtype)));
}

// Converts bias[first, first + n) to the accumulator's type (f32 or f64).
void convert_bias(const void* bias, DType dtype, int64_t first, int64_t n, DType accumulator,
                  void* converted);

}  // namespace genesis::cpu
