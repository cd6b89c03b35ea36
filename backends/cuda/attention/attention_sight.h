// What a query sees, on the device: causality, key_length and the mask in one place. Used by attention_*.cu.
#pragma once

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/device/number.h"

namespace genesis::cuda {

// How many keys exist in this run; a key_length out of range is reported (by the first thread of all) and
// clamped.
__device__ inline int64_t key_count(const AttentionShape& s, const AttentionData& d) {
  if (!d.key_length) return s.keys;
  const int64_t count = *d.key_length;
  if (count >= 0 && count <= s.keys) return count;
  if (blockIdx.x == 0 && threadIdx.x == 0) d.fault(count, s.keys + 1);
  return count < 0 ? 0 : s.keys;
}

// Keys [0, result) may be seen by `query`, of `count` keys.
__device__ inline int64_t sight_end(const AttentionShape& s, int64_t count, int64_t query) {
  if (!s.causal) return count;
  const int64_t last = query + count - s.queries + 1;
  return last < 0 ? 0 : last < count ? last : count;
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

// A scaled product as a score: -inf where the query does not see the key. `end` is sight_end of the query.
template <class W>
__device__ W score_of(const AttentionShape& s, const AttentionData& d, W product, int64_t b, int64_t h,
                      int64_t query, int64_t key, int64_t end) {
  if (key >= end || query >= s.queries) return W(-INFINITY);
  const W x = product * static_cast<W>(s.scale);
  if (!d.mask) return x;
  const W m = mask_value<W>(
      s.mask_dtype, d.mask,
      b * s.mask_steps[0] + h * s.mask_steps[1] + query * s.mask_steps[2] + key * s.mask_steps[3]);
  return s.mask_dtype == DType::boolean && m != W(0) ? m : x + m;
}

}  // namespace genesis::cuda
