// Softmax in one pass over its row: a running maximum, a running sum of exp(x - maximum) and, in attention, the
// running weighted sum of the values. Kernels keep their own loops. Power(shift)(x) is exp(x - shift), as exact as
// the dtype can represent. Adding and merging in the same order gives the same bits.
#pragma once

#include "backends/cuda/device/exponential.h"
#include "backends/cuda/device/reduce.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// Returns the maximum, or 0 if it is -inf (no element but -inf so far), so that exponentials become 0 instead of NaN.
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
  // Raises the maximum to `to`, which is not smaller. Returns the factor by which sums so far were multiplied.
  __device__ __forceinline__ W rescale(W to) {
    const W factor = Power(finite_shift(to))(max);
    max = to;
    sum *= factor;
    return factor;
  }
  // Merges another maximum and sum into this one. Returns the factors by which both sums were multiplied.
  __device__ __forceinline__ Factors merge(W other_max, W other_sum) {
    const W to = MaxOrNan{}(max, other_max);
    const Power power(finite_shift(to));
    const Factors by{power(max), power(other_max)};
    max = to;
    sum = sum * by.own + other_sum * by.other;
    return by;
  }

  // Adds the elements value(0) to value(N - 1). A NaN reaches the sum, never the maximum.
  template <int N, class Value>
  __device__ __forceinline__ void add(const Value& value) {
    W most = max;
#pragma unroll
    for (int j = 0; j < N; ++j) most = Max{}(most, value(j));
    const Power power = raise(most);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += power(value(j));
  }
  // For a row that `set` neighboring lanes share: replaces this lane's N scores by their weights. All lanes know the
  // maximum; each has the sum of its own weights only. Returns the factor by which sums so far were multiplied.
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
  // Merges the states of all threads of a group (reduce_group); each thread gets the result.
  __device__ __forceinline__ void merge_group(int group) {
    raise(reduce_group(max, group, Max{}));
    sum = reduce_group(sum, group, Add{});
  }

 private:
  // Like rescale(), for callers whose maximum often stays the same.
  __device__ __forceinline__ Power raise(W to) {
    const Power power(finite_shift(to));
    if (to > max) sum *= power(max);
    max = to;
    return power;
  }
};

// OnlineSoftmax with N features of the weighted sum of the values.
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
  // Adds a value with its weight, which is the power of its score.
  template <class Value>
  __device__ __forceinline__ void add(float weight, const Value& value) {
    this->sum += weight;
    if (weight == 0) return;  // a masked value may be anything, even NaN
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = fmaf(weight, value(i), y[i]);
  }
};

#endif

}  // namespace genesis::cuda
