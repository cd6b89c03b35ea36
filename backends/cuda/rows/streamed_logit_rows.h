// The loss of rows of logits, and the gradient in their place, of any type and length: a row is read twice,
// the second time in part from the second-level cache. Used by kernels/linear_cross_entropy.cu where
// logit_rows.h declines.
#pragma once

#include "backends/cuda/rows/logit_rows.h"

namespace genesis::cuda {

constexpr int kRowThreads = 512, kRowWarps = kRowThreads / 32;

#ifdef __CUDACC__

template <class W>
struct MaxSum {
  W max, sum;  // sum of exp(x - max)
};

// NaN wins.
template <class W>
__device__ W larger(W a, W b) {
  return a > b || a != a ? a : b;
}

template <class T>
__device__ MaxSum<wide_t<T>> merged(MaxSum<wide_t<T>> a, MaxSum<wide_t<T>> b) {
  using W = wide_t<T>;
  const W max = larger(a.max, b.max), shift = max == W(-INFINITY) ? W(0) : max;
  return {max, a.sum * exponential<T>(a.max - shift) + b.sum * exponential<T>(b.max - shift)};
}

// combine(a, b) over the block, the same in every thread.
template <class V, class Combine>
__device__ V over_block(V mine, V (&shared)[kRowWarps], const Combine& combine) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) {
    V other = mine;
    static_assert(sizeof(V) % 4 == 0);
#pragma unroll
    for (unsigned i = 0; i < sizeof(V) / 4; ++i)
      reinterpret_cast<int*>(&other)[i] =
          __shfl_down_sync(0xffffffffu, reinterpret_cast<int*>(&mine)[i], far);
    mine = combine(mine, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
  __syncthreads();
  V total = shared[0];
  for (int w = 1; w < kRowWarps; ++w) total = combine(total, shared[w]);
  return total;
}

// A block per row: its loss, and the gradient in place of its logits.
template <class T, int N, bool kGradients>
__global__ void __launch_bounds__(kRowThreads) finish_rows(RowsArguments a, T* logits) {
  using W = wide_t<T>;
  __shared__ MaxSum<W> shared[kRowWarps];
  __shared__ W shared_sums[kRowWarps];
  const int64_t row = a.first + blockIdx.x, classes = a.targets.classes, at = a.targets[row];
  T* x = logits + static_cast<int64_t>(blockIdx.x) * a.ld;
  auto* packs = reinterpret_cast<Pack<T, N>*>(x);
  const int64_t whole = classes / N;
  const bool counts = a.targets.counts(at);
  if (!counts) {
    if (threadIdx.x == 0) a.row_loss[row] = 0;
    if (kGradients)
      for (int64_t i = threadIdx.x; i < classes; i += kRowThreads) x[i] = narrow<T>(W(0));
    return;
  }
  MaxSum<W> mine{W(-INFINITY), W(0)};
  const auto take = [&](const auto& values, int n) {
    W max = mine.max;
    for (int k = 0; k < n; ++k) max = larger(max, widen(values[k]));
    const W shift = max == W(-INFINITY) ? W(0) : max;
    W sum = mine.sum * exponential<T>(mine.max - shift);
    for (int k = 0; k < n; ++k) sum += exponential<T>(widen(values[k]) - shift);
    mine = {max, sum};
  };
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < whole; i += kRowThreads) {
    const Pack<T, N> pack = packs[i];
    take(pack.at, N);
  }
  for (int64_t i = whole * N + threadIdx.x; i < classes; i += kRowThreads) take(x + i, 1);
  const W target = widen(x[at]);
  const MaxSum<W> total = over_block(mine, shared, merged<T>);  // all have read x[at] when it returns
  const W log_sum = log(total.sum), lse = total.max + log_sum;

  const double mean = a.denominator ? 1 / *a.denominator : 1, g = a.boost > 0 ? a.boost : mean;
  const double share = a.smoothing / static_cast<double>(classes);
  const W scale = static_cast<W>(g), low = static_cast<W>(g * share),
          high = static_cast<W>(g * (1 - a.smoothing));
  W spread = 0;
  const auto put = [&](T& value, int64_t i) {
    const W v = widen(value);
    spread += total.max - v;
    if (kGradients) value = narrow<T>(scale * exponential<T>(v - lse) - low - (i == at ? high : W(0)));
  };
  if (kGradients || a.smoothing != 0) {
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < whole; i += kRowThreads) {
      Pack<T, N> pack = packs[i];
#pragma unroll
      for (int k = 0; k < N; ++k) put(pack.at[k], i * N + k);
      if (kGradients) packs[i] = pack;
    }
    for (int64_t i = whole * N + threadIdx.x; i < classes; i += kRowThreads) put(x[i], i);
  }
  if (a.smoothing != 0) spread = over_block(spread, shared_sums, [](W p, W q) { return p + q; });
  if (threadIdx.x != 0) return;
  double loss =
      (1 - a.smoothing) * (static_cast<double>(log_sum) - (static_cast<double>(target) - total.max));
  if (a.smoothing != 0)
    loss += share * (static_cast<double>(spread) + static_cast<double>(classes) * log_sum);
  a.row_loss[row] = loss;
}

#endif

}  // namespace genesis::cuda
