// Reductions over the lanes of a warp and over groups of threads. Partners exchange their values, so that all of them
// end with the same bits.
#pragma once

#include <type_traits>

#include "backends/cuda/device/async_copy.h"

namespace genesis::cuda {

inline constexpr int kLanes = 32;  // lanes of a warp

#ifdef __CUDACC__

struct Add {
  template <class W>
  __device__ W operator()(W a, W b) const {
    return a + b;
  }
};
// Ignores NaN: in softmax the exponentials propagate it.
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ double operator()(double a, double b) const { return fmax(a, b); }
};
// NaN wins, so that it reaches the result. The chip has one instruction for this, which compilers do not generate.
struct MaxOrNan {
  __device__ float operator()(float a, float b) const {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
  }
  __device__ double operator()(double a, double b) const { return a > b || a != a ? a : b; }
};

// Returns the value that another lane of the warp has. Every lane of the warp calls these functions. A struct is
// exchanged in words of four bytes.
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
// Returns the value of the lane whose number differs in the bit `far`, a power of two.
template <class V>
__device__ __forceinline__ V from_partner(const V& v, int far) {
  return shuffled(v, [&](auto part) { return __shfl_xor_sync(~0u, part, far); });
}
// Returns the value of the lane `far` further on; the last `far` lanes get their own.
template <class V>
__device__ __forceinline__ V from_above(const V& v, int far) {
  return shuffled(v, [&](auto part) { return __shfl_down_sync(~0u, part, far); });
}

// Reduces over the threads of a warp that share a group; each gets the same bits.
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

// Sums each v over the lanes of a warp whose distance is a multiple of `apart`, adding the farthest lanes first.
template <class W, int M>
__device__ __forceinline__ void sum_lanes_apart(W (&v)[M], int apart) {
#pragma unroll
  for (int step = kLanes / 2; step >= apart; step /= 2)
#pragma unroll
    for (int m = 0; m < M; ++m) v[m] += from_partner(v[m], step);
}

// Sums each v over sets of kSet neighboring lanes, adding the nearest lanes first.
template <int kSet, int M>
__device__ __forceinline__ void sum_neighbors(float (&v)[M]) {
#pragma unroll
  for (int far = 1; far < kSet; far *= 2)
#pragma unroll
    for (int m = 0; m < M; ++m) v[m] += from_partner(v[m], far);
}

// Sums each of N values over the warp and returns to every lane one of the sums: lanes i * 32 / N to (i + 1) * 32 / N
// - 1 get the sum of value i. Partners at distance kFar give each other half of their values while they have several.
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

// Reduces over the group's threads; each gets the same bits. Every thread of the block calls it. Give each call of a
// kernel that is executed only once its own kPlace >= 0: it then has its own shared memory and needs no barrier
// against earlier calls.
template <int kPlace = -1, class W, class Combine>
__device__ W reduce_group(W v, int group, const Combine& combine) {
  v = reduce_lanes(v, group, combine);
  if (group <= kLanes) return v;
  __shared__ W of_warp[32];
  const int warps = group / kLanes;
  if constexpr (kPlace < 0) __syncthreads();  // until all threads have read the results of the last call
  if (threadIdx.x % kLanes == 0) of_warp[threadIdx.x / kLanes] = v;
  __syncthreads();
  v = of_warp[threadIdx.x & (warps - 1)];
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    if (step < warps) v = combine(v, from_partner(v, step));
  return v;
}

// Reduces over the values of lane 0 of each of a block's warps, in the order of the warps; every thread gets the same
// bits.
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

// Reduces over a block of whole warps in a fixed order, for a `combine` with combine(a, b) and combine(b, a) that may
// differ in the last bit: there, partners may not both combine.
template <int kWarps, class V, class Combine>
__device__ V reduce_in_order(V mine, const Combine& combine) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) mine = combine(mine, from_above(mine, step));
  return reduce_warps<kWarps>(mine, kWarps, combine);
}

// Returns to the first thread the sum over a block of kThreads threads, a power of two: the upper half is repeatedly
// added to the lower half.
template <int kThreads, class W>
__device__ W tree_sum(W v) {
  __shared__ W of_thread[kThreads];
  __syncthreads();  // the first thread may still read the last call's sum
  of_thread[threadIdx.x] = v;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) of_thread[threadIdx.x] += of_thread[threadIdx.x + half];
  }
  return of_thread[0];
}

// Reduces over the threads (x, 0) to (x, kStripes - 1) of a block of kColumns x kStripes, in order; each gets the
// same bits.
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

// Sums each v over the threads of a group; all of them get the result. A block has at most kMaxThreads threads. Every
// thread of the group calls it; other groups of the block need not call it at the same time. `call` is the number of
// the call: its parity selects the buffer in shared memory, so that one barrier is enough.
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
  if (warps == 2) {  // most rows: needs neither shuffles nor loops
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
