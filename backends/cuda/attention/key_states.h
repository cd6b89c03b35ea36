// What a few lanes know of one row of scores while they go through keys, and how such states are merged:
// always in one order. Used by attention_split.cu and kernels/cached_attention.cu, where a row of a key is
// held by kSet lanes.
#pragma once

#include "backends/cuda/attention/attention_sight.h"
#include "backends/cuda/device/packs.h"

namespace genesis::cuda {

inline constexpr int kLanes = 32;

template <class T>
inline constexpr int kKeyPack = 16 / sizeof(T);

// exp is exact enough for f32; 16-bit results do not show the difference to the fast one.
template <class T>
__device__ float weight_of(float x) {
  if constexpr (sizeof(T) == 4)
    return expf(x);
  else
    return __expf(x);
}

// What a set of lanes knows of one row: the maximum, the sum, and its lanes' features of the weighted values.
template <int N>
struct State {
  float top = -INFINITY, sum = 0, y[N] = {};
};

template <class T, int N>
__device__ void merge(State<N>& a, float top, float sum, const float (&y)[N]) {
  const float higher = maximum(a.top, top);
  if (higher == -INFINITY) return;
  const float keep = weight_of<T>(a.top - higher), take = weight_of<T>(top - higher);
  a.top = higher;
  a.sum = a.sum * keep + sum * take;
#pragma unroll
  for (int i = 0; i < N; ++i) a.y[i] = a.y[i] * keep + y[i] * take;
}

template <class T, int kSet>
__device__ float dot(const float (&q)[kKeyPack<T>], const Pack<T, kKeyPack<T>>& k) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kKeyPack<T>; ++i) sum = fmaf(q[i], widen(k.at[i]), sum);
#pragma unroll
  for (int far = kSet / 2; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
  return sum;
}

// One row of y from the states of sets far / kSet apart within a warp.
template <class T, int kSet, int N>
__device__ void merge_sets(State<N>& state) {
#pragma unroll
  for (int far = kSet; far < kLanes; far *= 2) {
    float y[N];
    const float top = __shfl_xor_sync(0xffffffffu, state.top, far),
                sum = __shfl_xor_sync(0xffffffffu, state.sum, far);
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = __shfl_xor_sync(0xffffffffu, state.y[i], far);
    // Both partners must add in one order, or they would differ in the last bit.
    if (threadIdx.x & far) {
      State<N> other{top, sum};
#pragma unroll
      for (int i = 0; i < N; ++i) other.y[i] = y[i];
      merge<T>(other, state.top, state.sum, state.y);
      state = other;
    } else {
      merge<T>(state, top, sum, y);
    }
  }
}

}  // namespace genesis::cuda
