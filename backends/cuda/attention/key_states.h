// Attention of one row over keys, with a key's row held by kSet lanes: scores, the row's online softmax, and the
// merge of the states of warps and of blocks, always in the same order.
#pragma once

#include "backends/cuda/device/online_softmax.h"
#include "backends/cuda/device/packs.h"

namespace genesis::cuda {

template <class T>
inline constexpr int kKeyPack = 16 / sizeof(T);

// exp(x - shift): expf() for f32; 16-bit results do not show the error of the fast version.
template <class T>
struct ScorePower {
  float shift;
  __device__ __forceinline__ explicit ScorePower(float s) : shift(s) {}
  __device__ __forceinline__ float operator()(float x) const {
    if constexpr (sizeof(T) == 4)
      return expf(x - shift);
    else
      return __expf(x - shift);
  }
};

// The state of one row in a set of lanes, each with N features of the weighted values.
template <class T, int N = kKeyPack<T>>
using KeyState = OnlineWeightedSum<ScorePower<T>, N>;

template <class T, int kSet>
__device__ __forceinline__ float dot(const float (&q)[kKeyPack<T>], const Pack<T, kKeyPack<T>>& k) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kKeyPack<T>; ++i) sum = fmaf(q[i], widen(k.at[i]), sum);
  return reduce_lanes(sum, kSet, Add{});
}

// The packs that a lane has of a row that kSet lanes hold: kPacks packs, kSet packs apart.
template <class T, int kSet, int kPacks>
struct KeyRow {
  static constexpr int N = kKeyPack<T>;
  Pack<T, N> packs[kPacks];

  // The feature of element i of lane `lane` of a set.
  __device__ static constexpr int feature(int lane, int i) { return (i / N * kSet + lane) * N + i % N; }
  // Loads the packs of a row. Without kFills, packs beyond its `size` features are zeros.
  template <bool kFills>
  __device__ __forceinline__ void load(const T* row, int lane, int size) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int at = feature(lane, p * N);
      packs[p] = kFills || at < size ? *reinterpret_cast<const Pack<T, N>*>(row + at) : Pack<T, N>{};
    }
  }
  __device__ __forceinline__ float operator[](int i) const { return widen(packs[i / N].at[i % N]); }
};

template <class T, int kSet, int kPacks>
__device__ __forceinline__ float dot(const float (&q)[kPacks * kKeyPack<T>],
                                     const KeyRow<T, kSet, kPacks>& k) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kPacks * kKeyPack<T>; ++i) sum = fmaf(q[i], k[i], sum);
  return reduce_lanes(sum, kSet, Add{});
}

// Adds kKeys keys at once. to_scores(products) turns the products q . key(u) into scaled scores, -inf if the row does
// not see the key; value(u, i) is element i of a value.
template <class T, int kSet, int kKeys, int N, class Key, class ToScores, class Value>
__device__ __forceinline__ void add_keys(KeyState<T, N>& state, const float (&q)[N], const Key& key,
                                         const ToScores& to_scores, const Value& value) {
  float scores[kKeys], max = state.max;
#pragma unroll
  for (int u = 0; u < kKeys; ++u) scores[u] = dot<T, kSet>(q, key(u));
  to_scores(scores);
#pragma unroll
  for (int u = 0; u < kKeys; ++u) max = MaxOrNan{}(max, scores[u]);
  if (max == -INFINITY) return;
  state.rescale(max);
  const ScorePower<T> power(max);
#pragma unroll
  for (int u = 0; u < kKeys; ++u) state.add(power(scores[u]), [&](int i) { return value(u, i); });
}

// Merges the states of all sets within a warp; sets are kSet lanes apart.
template <class T, int kSet, int N>
__device__ __forceinline__ void merge_sets(KeyState<T, N>& state) {
#pragma unroll
  for (int far = kSet; far < kLanes; far *= 2) {
    // Both partners must add in the same order, or they would differ in the last bit.
    const KeyState<T, N> given = from_partner(state, far);
    const bool is_upper = (threadIdx.x & far) != 0;
    const float max = is_upper ? state.max : given.max, sum = is_upper ? state.sum : given.sum;
    float y[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      y[i] = is_upper ? state.y[i] : given.y[i];
      if (is_upper) state.y[i] = given.y[i];
    }
    if (is_upper) state.max = given.max, state.sum = given.sum;
    state.merge(max, sum, y);
  }
}

// Writes a warp's state as a row {y [kSet * N], maximum, sum}.
template <class T, int kSet, int N>
__device__ __forceinline__ void put_warp(KeyState<T, N> state, float* row) {
  merge_sets<T, kSet>(state);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (lane >= kSet) return;
#pragma unroll
  for (int i = 0; i < N; ++i) row[lane * N + i] = state.y[i];
  if (lane == 0) row[kSet * N] = state.max, row[kSet * N + 1] = state.sum;
}

// Merges feature d of `count` such rows, `step` apart, in order.
template <class T>
__device__ __forceinline__ KeyState<T, 1> merge_rows(const float* rows, int count, int64_t step, int64_t size,
                                                     int64_t d) {
  KeyState<T, 1> state;
#pragma unroll 8  // loads in flight
  for (int i = 0; i < count; ++i) {
    const float* row = rows + i * step;
    const float y[1] = {d < size ? row[d] : 0.0f};
    state.merge(row[size], row[size + 1], y);
  }
  return state;
}

}  // namespace genesis::cuda
