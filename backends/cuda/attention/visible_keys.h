// Tells which keys a query sees, on the device: causality, windows, key_start, key_length and the mask in one place.
#pragma once

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/device/number.h"

namespace genesis::cuda {

// Returns how many of `queries` have keys that start no later than `key`; starts never decrease.
template <class Index>
__device__ __forceinline__ Index queries_from(const int64_t* starts, Index queries, int64_t key) {
  Index low = 0, high = queries;
  while (low < high) {
    const Index middle = (low + high) / 2;
    if (starts[middle] > key)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// The visible keys of one row of the batch in this run. Causality counts from `length`. It can exceed `count`, the
// number of existing keys, only if each row has its own length.
struct VisibleKeys {
  int64_t count, length;
  const int64_t* starts;  // first visible key of each query; null: the first key

  // Reports a key_length that is out of range and clamps it. The report comes from the first thread of the grid or,
  // if rows have their own lengths, of each block that sees the value.
  __device__ __forceinline__ VisibleKeys(const AttentionShape& s, const AttentionData& d, int64_t b)
      : count(s.keys), length(s.keys), starts(d.key_start ? d.key_start + b * s.queries : nullptr) {
    if (!d.key_length) return;
    const int64_t given = d.key_length[s.own_lengths ? b : 0];
    const bool is_bad = given < 0 || (!s.own_lengths && given > s.keys);
    if (is_bad && threadIdx.x == 0 && (s.own_lengths || blockIdx.x == 0)) d.fault(given, s.keys + 1);
    count = given < 0 ? 0 : given < s.keys ? given : s.keys;
    length = s.own_lengths && given > s.keys ? given : count;
  }
  // Returns the end and the beginning of the keys [begin, end) that `query` may see.
  __device__ __forceinline__ int64_t end(const AttentionShape& s, int64_t query) const {
    if (!s.causal) return count;
    const int64_t last = query + length - s.queries + 1;
    return last < 0 ? 0 : last < count ? last : count;
  }
  __device__ __forceinline__ int64_t begin(const AttentionShape& s, int64_t query) const {
    int64_t first = s.window == 0 ? 0 : query + length - s.queries + 1 - s.window;
    if (starts) first = max(first, starts[query]);
    return first < 0 ? 0 : first < count ? first : count;
  }
  // Queries before the result see no key from `key` on.
  __device__ __forceinline__ int64_t first(const AttentionShape& s, int64_t key) const {
    return s.causal ? max(int64_t{0}, key - (length - s.queries)) : 0;
  }
  // Queries from the result on see no key up to `key`.
  __device__ __forceinline__ int64_t past(const AttentionShape& s, int64_t key) const {
    const int64_t all = starts ? queries_from(starts, s.queries, key) : s.queries;
    if (s.window == 0) return all;
    const int64_t first = key - (length - s.queries) + s.window;
    return first < 0 ? 0 : first < all ? first : all;
  }
};

// Reports a key_start that decreases among the queries of a block; all its threads call this.
__device__ __forceinline__ void check_key_starts(const AttentionShape& s, const AttentionData& d,
                                                 const VisibleKeys& visible, int64_t first, int64_t end) {
  if (!visible.starts) return;
  for (int64_t i = max(int64_t{1}, first) + threadIdx.x; i < min(end, s.queries); i += blockDim.x)
    if (visible.starts[i] < visible.starts[i - 1]) d.fault.falling_starts();
}

template <class W>
__device__ W mask_value(DType dtype, const void* mask, int64_t at) {
  switch (dtype) {
    case DType::boolean:
      return static_cast<const bool*>(mask)[at] ? W(0) : W(-INFINITY);
    case DType::f64:
      return static_cast<W>(static_cast<const double*>(mask)[at]);
    case DType::f16:
      return static_cast<W>(__half2float(static_cast<const __half*>(mask)[at]));
    case DType::bf16:
      return static_cast<W>(__bfloat162float(static_cast<const __nv_bfloat16*>(mask)[at]));
    default:
      return static_cast<W>(static_cast<const float*>(mask)[at]);
  }
}

// Returns a score with element `at` of the mask applied.
template <class W>
__device__ __forceinline__ W with_mask(W score, DType dtype, const void* mask, int64_t at) {
  const W m = mask_value<W>(dtype, mask, at);
  return dtype == DType::boolean && m != W(0) ? m : score + m;
}

}  // namespace genesis::cuda
