// Reductions over the lanes of a warp and over groups of threads: partners swap what they have, so that all of
// them end with the same bits. Used by kernels of rows, of attention and of products.
#pragma once

#include <type_traits>

#include "backends/cuda/device/async_copy.h"

namespace genesis::cuda {

inline constexpr int kLanes = 32;  // of a warp

#ifdef __CUDACC__

struct Add {
  template <class W>
  __device__ W operator()(W a, W b) const {
    return a + b;
  }
};
// Ignores NaN, which the exponentials carry on.
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ double operator()(double a, double b) const { return fmax(a, b); }
};
// NaN wins, so that it reaches the result. Chips have one instruction for that, which compilers do not find.
struct MaxOrNan {
  __device__ float operator()(float a, float b) const {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
  }
  __device__ double operator()(double a, double b) const { return a > b || a != a ? a : b; }
};

// What a lane of the warp has, in another. Every lane of the warp calls these. A struct goes in words of four bytes.
template <class V, class Shuffle>
__device__ __forceinline__ V shuffled(const V& v, const Shuffle& shuffle) {
  if constexpr (std::is_arithmetic_v<V>) {
    return shuffle(v);
  } else {
    static_assert(sizeof(V) % 4 == 0);
    V other = v;
#pragma unroll
    for (unsigned i = 0; i < sizeof(V) / 4; ++i)
      reinterpret_cast<int*>(&other)[i] = shuffle(reinterpret_cast<const int*>(&v)[i]);
    return other;
  }
}
// Of the lane whose number differs by `far`, a power of two.
template <class V>
__device__ __forceinline__ V from_partner(const V& v, int far) {
  return shuffled(v, [&](auto part) { return __shfl_xor_sync(~0u, part, far); });
}
// Of the lane `far` further on; of the last ones, their own.
template <class V>
__device__ __forceinline__ V from_above(const V& v, int far) {
  return shuffled(v, [&](auto part) { return __shfl_down_sync(~0u, part, far); });
}

// combine over the threads of a warp that share a group, the same bits in each.
template <class W, class Combine>
__device__ __forceinline__ W reduce_lanes(W v, int group, const Combine& combine) {
  if (group < kLanes) {
    for (int step = group / 2; step > 0; step /= 2) v = combine(v, from_partner(v, step));
    return v;
  }
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) v = combine(v, from_partner(v, step));
  return v;
}

template <class W>
__device__ __forceinline__ W warp_sum(W v) {
  return reduce_lanes(v, kLanes, Add{});
}

// The sums of each v over the lanes of a warp that are a multiple of `apart` from each other, the farthest first.
template <class W, int M>
__device__ __forceinline__ void sum_lanes_apart(W (&v)[M], int apart) {
#pragma unroll
  for (int step = kLanes / 2; step >= apart; step /= 2)
#pragma unroll
    for (int m = 0; m < M; ++m) v[m] += from_partner(v[m], step);
}

// The sums of each v over sets of kSet neighbouring lanes, the nearest first.
template <int kSet, int M>
__device__ __forceinline__ void sum_neighbours(float (&v)[M]) {
#pragma unroll
  for (int far = 1; far < kSet; far *= 2)
#pragma unroll
    for (int m = 0; m < M; ++m) v[m] += from_partner(v[m], far);
}

// Of N values in every lane, their sums over the warp: that of value i in the 32 / N lanes from i * 32 / N on. Partners at
// distance kFar give each other half of what they have, as long as that is several.
template <int N, int kFar = kLanes / 2>
__device__ __forceinline__ float sum_by_lanes(const float (&values)[N]) {
  constexpr int kKept = N > 1 ? N / 2 : 1;
  const bool upper = N > 1 && (threadIdx.x & kFar) != 0;
  float kept[kKept];
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const float other = values[N > 1 ? i + kKept : i];
    const float given = upper ? values[i] : other, own = upper ? other : values[i];
    kept[i] = (N > 1 ? own : values[i]) + from_partner(given, kFar);
  }
  if constexpr (kFar > 1)
    return sum_by_lanes<kKept, kFar / 2>(kept);
  else
    return kept[0];
}

// combine over the group's threads, the same bits in each. Every thread of the block calls it. kPlace: where
// each call of a kernel has a place of its own, and is made once, none waits for what was there before.
template <int kPlace = -1, class W, class Combine>
__device__ W reduce_group(W v, int group, const Combine& combine) {
  v = reduce_lanes(v, group, combine);
  if (group <= kLanes) return v;
  __shared__ W of_warp[32];
  const int warps = group / kLanes;
  if constexpr (kPlace < 0) __syncthreads();  // the last use is over
  if (threadIdx.x % kLanes == 0) of_warp[threadIdx.x / kLanes] = v;
  __syncthreads();
  v = of_warp[threadIdx.x & (warps - 1)];
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    if (step < warps) v = combine(v, from_partner(v, step));
  return v;
}

// combine over what lane 0 of each of a block's warps has, in order; the same bits in every thread.
template <int kMaxWarps, class V, class Combine>
__device__ __forceinline__ V reduce_warps(const V& mine, int warps, const Combine& combine) {
  __shared__ V of_warp[kMaxWarps];
  __syncthreads();
  if (threadIdx.x % kLanes == 0) of_warp[threadIdx.x / kLanes] = mine;
  __syncthreads();
  V total = of_warp[0];
  for (int w = 1; w < warps; ++w) total = combine(total, of_warp[w]);
  return total;
}

// combine over a block of whole warps, where combine(a, b) and combine(b, a) may differ in the last bit, so that
// partners may not both combine.
template <int kWarps, class V, class Combine>
__device__ V reduce_in_order(V mine, const Combine& combine) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) mine = combine(mine, from_above(mine, step));
  return reduce_warps<kWarps>(mine, kWarps, combine);
}

// The sum over a block of kThreads threads, a power of two, in its first thread: the upper half is added to the lower one.
template <int kThreads, class W>
__device__ W tree_sum(W v) {
  __shared__ W of_thread[kThreads];
  __syncthreads();  // the first thread may still read the last sum's
  of_thread[threadIdx.x] = v;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) of_thread[threadIdx.x] += of_thread[threadIdx.x + half];
  }
  return of_thread[0];
}

// combine over the threads (x, 0) to (x, kStripes - 1) of a block of kColumns x kStripes, in order; the same bits in each.
template <int kColumns, int kStripes, class W, class Combine>
__device__ W reduce_column(W v, const Combine& combine) {
  __shared__ W of_stripe[kStripes][kColumns];
  __syncthreads();
  of_stripe[threadIdx.y][threadIdx.x] = v;
  __syncthreads();
  v = of_stripe[0][threadIdx.x];
#pragma unroll
  for (int i = 1; i < kStripes; ++i) v = combine(v, of_stripe[i][threadIdx.x]);
  return v;
}

// The sums of each v over the threads of a group, in all of them; a block has kMaxThreads at most. Every thread
// of the group calls it, and no other: a block's groups need not keep step. `call` is the number of the call,
// whose parity chooses the place in shared memory, so that one barrier is enough.
template <int kMaxThreads, int M>
__device__ void sum_group(float (&v)[M], int group, int call) {
  if (group < kLanes) {
    for (int step = group / 2; step > 0; step /= 2)
#pragma unroll
      for (int m = 0; m < M; ++m) v[m] += from_partner(v[m], step);
    return;
  }
  sum_lanes_apart(v, 1);
  if (group == kLanes) return;
  __shared__ float of_warp[2][M][kMaxThreads / kLanes];
  const int warp = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes,
            warps = group / kLanes, first = warp & -warps;  // a power of two
#pragma unroll
  for (int m = 0; m < M; ++m)
    if (lane == 0) of_warp[call & 1][m][warp] = v[m];
  wait_for_threads(1 + first, group);
  if (warps == 2) {  // most rows: neither lanes nor loops
#pragma unroll
    for (int m = 0; m < M; ++m) v[m] = of_warp[call & 1][m][first] + of_warp[call & 1][m][first + 1];
    return;
  }
#pragma unroll
  for (int m = 0; m < M; ++m) {
    v[m] = of_warp[call & 1][m][first + (lane & (warps - 1))];
#pragma unroll
    for (int step = kMaxThreads / 64; step > 0; step /= 2)
      if (step < warps) v[m] += from_partner(v[m], step);
  }
}

#endif

}  // namespace genesis::cuda
