// Softmax in one pass over its row: a running maximum, a running sum of exp(x - maximum) and, in attention, the
// values' sum weighted so. Kernels keep their own loops. Power(shift)(x) is exp(x - shift), as exact as the dtype
// can show. What is added and merged in one order has the same bits.
#pragma once

#include "backends/cuda/device/exponential.h"
#include "backends/cuda/device/reduce.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// Nothing but -inf so far: exponentials are 0.
template <class W>
__device__ __forceinline__ W finite_shift(W max) {
  return max == W(-INFINITY) ? W(0) : max;
}

template <class Power, class W = float>
struct OnlineSoftmax {
  struct Factors {
    W own, other;
  };
  W max = -INFINITY, sum = 0;

  __device__ __forceinline__ Power power() const { return Power(finite_shift(max)); }
  // The maximum becomes `to`, which is no less. What the sums so far were multiplied by.
  __device__ __forceinline__ W rescale(W to) {
    const W factor = Power(finite_shift(to))(max);
    max = to;
    sum *= factor;
    return factor;
  }
  // What both sums were multiplied by.
  __device__ __forceinline__ Factors merge(W other_max, W other_sum) {
    const W to = MaxOrNan{}(max, other_max);
    const Power power(finite_shift(to));
    const Factors by{power(max), power(other_max)};
    max = to;
    sum = sum * by.own + other_sum * by.other;
    return by;
  }

  // Elements value(0) to value(N - 1). A NaN reaches the sum, never the maximum.
  template <int N, class Value>
  __device__ __forceinline__ void add(const Value& value) {
    W most = max;
#pragma unroll
    for (int j = 0; j < N; ++j) most = Max{}(most, value(j));
    const Power power = raise(most);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += power(value(j));
  }
  // Of a row that `set` neighbouring lanes share: N scores of this lane become their weights. All lanes know the maximum,
  // each the sum of its own weights. What the sums so far were multiplied by.
  template <int N, class Score>
  __device__ __forceinline__ W weigh(int set, const Score& score) {
    W most = max;
#pragma unroll
    for (int j = 0; j < N; ++j) most = Max{}(most, score(j));
    const W factor = rescale(reduce_lanes(most, set, Max{}));
    const Power weight = power();
    W added = score(0) = weight(score(0));
#pragma unroll
    for (int j = 1; j < N; ++j) added += score(j) = weight(score(j));
    sum += added;
    return factor;
  }
  // Of all threads of a group (reduce_group), in each.
  __device__ __forceinline__ void merge_group(int group) {
    raise(reduce_group(max, group, Max{}));
    sum = reduce_group(sum, group, Add{});
  }

 private:
  // As rescale, where the maximum often is what it was.
  __device__ __forceinline__ Power raise(W to) {
    const Power power(finite_shift(to));
    if (to > max) sum *= power(max);
    max = to;
    return power;
  }
};

// With N features of the values' weighted sum.
template <class Power, int N>
struct OnlineWeightedSum : OnlineSoftmax<Power> {
  using Base = OnlineSoftmax<Power>;
  float y[N] = {};

  __device__ __forceinline__ void rescale(float to) {
    const float factor = Base::rescale(to);
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] *= factor;
  }
  __device__ __forceinline__ void merge(float max, float sum, const float (&other)[N]) {
    const typename Base::Factors by = Base::merge(max, sum);
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = y[i] * by.own + other[i] * by.other;
  }
  // A value with its weight, a power of its score.
  template <class Value>
  __device__ __forceinline__ void add(float weight, const Value& value) {
    this->sum += weight;
    if (weight == 0) return;  // what is not seen may be anything
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = fmaf(weight, value(i), y[i]);
  }
};

#endif

}  // namespace genesis::cuda
