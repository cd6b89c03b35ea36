// Reduces a row in one fixed order: spans that fit the L1 cache, merged pairwise. So sums are accurate, and every kernel that
// reduces a row on this CPU gets the same bits.
#pragma once

#include <algorithm>
#include <cstddef>

#include "backends/cpu/reduce/reduce_functions.h"

namespace genesis::cpu {

inline constexpr int64_t kReduceSpan = 4096;  // elements per span

// Pairwise summation of a stream of partial results. Like the digits of a binary counter, level i holds a result of 2^i spans
// until its neighbor arrives.
class Pairwise {
 public:
  explicit Pairwise(const ReduceFunctions& functions) : f_(functions) {}
  void add(uint64_t accumulator) {
    int level = 0;
    for (uint64_t n = count_++; n & 1; n >>= 1) {
      f_.merge(&levels_[level], &accumulator, 1);
      accumulator = levels_[level++];
    }
    levels_[level] = accumulator;
  }
  uint64_t total() const {
    uint64_t sum = 0;
    bool any = false;
    for (int level = 0; (count_ >> level) != 0; ++level) {
      if (!(count_ >> level & 1)) continue;
      uint64_t left = levels_[level];
      if (any) f_.merge(&left, &sum, 1);
      sum = left;
      any = true;
    }
    return sum;
  }

 private:
  const ReduceFunctions& f_;
  uint64_t count_ = 0;
  uint64_t levels_[48];
};

// Returns the accumulator of x[0, n), whose elements have `element` bytes.
inline uint64_t reduce_row(const ReduceFunctions& f, int64_t element, const std::byte* x, int64_t n) {
  uint64_t accumulator = 0;
  if (n <= kReduceSpan) {
    f.span(x, n, &accumulator);
    return accumulator;
  }
  Pairwise sum(f);
  for (int64_t i = 0; i < n; i += kReduceSpan) {
    f.span(x + i * element, std::min(kReduceSpan, n - i), &accumulator);
    sum.add(accumulator);
  }
  return sum.total();
}

}  // namespace genesis::cpu
