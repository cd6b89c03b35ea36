// Small things that the matrix product's files share. Used by gemm_*.cpp only.
#pragma once

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>

#include <cstddef>
#include <cstdint>

#include "backends/cpu/gemm.h"
#include "schema/dtype.h"

namespace genesis::cpu {

constexpr int64_t kAlignment = 64;  // of scratch and its parts
constexpr int64_t kMaxBias = 1024;  // columns of one tile at most

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Every index is a task of its own: how work is cut is the caller's choice, never that of the number of
// threads.
template <class Body>
void parallel_for_each_index(int64_t count, const Body& body) {
  if (count == 1) return body(0);
  tbb::parallel_for(
      tbb::blocked_range<int64_t>(0, count),
      [&](const tbb::blocked_range<int64_t>& range) {
        for (int64_t i = range.begin(); i < range.end(); ++i) body(i);
      },
      tbb::simple_partitioner());
}

// bias[first, first + n) in the accumulator's type (f32 or f64).
void convert_bias(const void* bias, DType dtype, int64_t first, int64_t n, DType accumulator,
                  void* converted);

}  // namespace genesis::cpu
