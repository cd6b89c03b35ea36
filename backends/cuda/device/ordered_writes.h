// Writes by index in the order of the indices, so that results have the same bits each time. Positions are sorted by
// their destination (the sort is stable), and one thread does all writes to one destination.
#pragma once

#include <bit>

#include "backends/cuda/device/radix_sort.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

// Shape of the sort of `writes` positions by their destination, out of `places`. Destinations that are out of range
// sort last, as the number `places`.
inline SortShape writes_shape(int64_t writes, int64_t places) {
  return {.n = writes, .key_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(places)))};
}

#ifdef __CUDACC__

template <class Key>
__device__ __forceinline__ bool starts_run(const Key* keys, int64_t i) {
  return i == 0 || keys[i - 1] != keys[i];
}

// Returns one past the last key equal to keys[first].
template <class Key>
__device__ int64_t end_of_run(const Key* keys, int64_t first, int64_t n) {
  const Key key = keys[first];
  int64_t in = first, step = 1;
  while (in + step < n && keys[in + step] == key) in += step, step *= 2;
  int64_t out = min(n, in + step);  // keys[in] is in the run, `out` is not
  while (out - in > 1) {
    const int64_t middle = in + (out - in) / 2;
    (keys[middle] == key ? in : out) = middle;
  }
  return out;
}

#endif

}  // namespace genesis::cuda
