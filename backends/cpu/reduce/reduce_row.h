// Reduces a row in one fixed order: spans that fit the L1 cache, merged pairwise. The order makes sums accurate, and every kernel
// that reduces a row on this CPU gets the same bits. An accumulator is the state of a reduction as 64 bits, whose meaning
// only the ReduceFunctions know.
#pragma once

#include <algorithm>
#include <cstddef>

#include "backends/cpu/reduce/reduce_functions.h"

namespace genesis::cpu {

inline constexpr int64_t kReduceSpan = 4096;  // elements per span; f64 spans take 32 KiB, an L1 cache

// Pairwise summation of a stream of partial results. Like the digits of a binary counter, level i holds a result of 2^i spans
// until its neighbor arrives.
class Pairwise {
 public:
  explicit Pairwise(const ReduceFunctions& functions) : f_(functions) {}
  // Adds the accumulator of the next span.
  void add(uint64_t accumulator) {
    int level = 0;
    for (uint64_t n = count_++; n & 1; n >>= 1) {
      f_.merge(&levels_[level], &accumulator, 1);
      accumulator = levels_[level++];
    }
    levels_[level] = accumulator;
  }
  // Returns the accumulator of all spans so far; 0 if there are none.
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
  uint64_t levels_[48];  // enough for 2^48 spans, more than memory holds
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
