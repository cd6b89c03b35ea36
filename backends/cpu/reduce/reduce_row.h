// A row reduced in one fixed order: spans that fit the first cache, joined pairwise, so that sums are
// accurate and have the same bits wherever they are computed. Used by kernels/tensor/reduce.cpp and the tile engine.
#pragma once

#include <algorithm>
#include <cstddef>

#include "backends/cpu/reduce/reduce_functions.h"

namespace genesis::cpu {

inline constexpr int64_t kReduceSpan = 4096;  // elements reduced in one go

// Partial results that wait for their neighbours, as the digits of a binary counter: pairwise summation as it
// goes.
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

// One accumulator for x[0, n), elements of `element` bytes.
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
