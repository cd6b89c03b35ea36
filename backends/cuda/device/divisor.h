// Division by a number that is known before the kernel starts, as a multiplication and a shift. Kernels use it to
// turn a flat index into coordinates; the host makes the divisors. Correct for dividends below 2^31.
#pragma once

#include <cstdint>

#include "schema/core/philox.h"

namespace genesis::cuda {

struct Divisor {
  uint32_t size = 1, magic = 1, shift = 0;

  GENESIS_HOST_DEVICE uint32_t quotient(uint32_t n) const {
#ifdef __CUDA_ARCH__
    return (__umulhi(n, magic) + n) >> shift;
#else
    return (static_cast<uint32_t>(uint64_t{n} * magic >> 32) + n) >> shift;
#endif
  }
};

// Makes a divisor for 0 <= `size` < 2^31 (Granlund & Montgomery, "Division by invariant integers using
// multiplication", 1994). 0 is replaced by 1: nothing is ever divided for an empty tensor.
inline Divisor make_divisor(int64_t size) {
  Divisor d;
  d.size = static_cast<uint32_t>(size > 0 ? size : 1);
  while ((uint64_t{1} << d.shift) < d.size) ++d.shift;
  d.magic = static_cast<uint32_t>((uint64_t{1} << 32) * ((uint64_t{1} << d.shift) - d.size) / d.size + 1);
  return d;
}

// Divides fast if every flat index of the tensor is below 2^31 (`is_small`), and by a 64-bit division otherwise.
struct FlatIndex {
  uint64_t quotient, remainder;
};
GENESIS_HOST_DEVICE inline FlatIndex divide(uint64_t n, const Divisor& by, bool is_small) {
  if (is_small) {
    const uint32_t low = static_cast<uint32_t>(n), q = by.quotient(low);
    return {q, low - q * by.size};
  }
  const uint64_t q = n / by.size;
  return {q, n - q * by.size};
}
GENESIS_HOST_DEVICE inline bool is_small(int64_t count) { return count <= INT32_MAX; }

}  // namespace genesis::cuda
