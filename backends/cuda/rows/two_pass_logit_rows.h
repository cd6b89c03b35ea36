// Computes the loss of rows of logits, and their gradient in place, for any type and length: a row is read twice, the
// second time partly from the L2 cache. Serves the rows that logit_rows.h declines.
#pragma once

#include "backends/cuda/rows/logit_rows.h"

namespace genesis::cuda {

constexpr int kRowThreads = 512, kRowWarps = kRowThreads / 32;

#ifdef __CUDACC__

template <class T>
using LogitSoftmax = OnlineSoftmax<ShiftedExponential<T>, wide_t<T>>;

// Returns the softmax state of the elements that this thread reads. It is rescaled with every pack: a branch would
// cost more.
template <class T, int N>
__device__ __forceinline__ LogitSoftmax<T> softmax_of_part(const T* x, int64_t classes) {
  using W = wide_t<T>;
  LogitSoftmax<T> mine;
  const auto take = [&](const auto& values, int n) {
    W max = mine.max;
    for (int k = 0; k < n; ++k) max = MaxOrNan{}(max, widen(values[k]));
    mine.rescale(max);
    for (int k = 0; k < n; ++k) mine.sum += mine.power()(widen(values[k]));
  };
  const int64_t whole = classes / N;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < whole; i += kRowThreads) {
    const Pack<T, N> pack = reinterpret_cast<const Pack<T, N>*>(x)[i];
    take(pack.at, N);
  }
  for (int64_t i = whole * N + threadIdx.x; i < classes; i += kRowThreads) take(x + i, 1);
  return mine;
}

// One block per row: computes its loss, and the gradient in place of its logits.
template <class T, int N, bool kGradients>
__global__ void __launch_bounds__(kRowThreads) finish_rows(RowsArguments a, T* logits) {
  using W = wide_t<T>;
  const int64_t row = a.first + blockIdx.x, classes = a.targets.classes, at = a.targets[row];
  T* x = logits + static_cast<int64_t>(blockIdx.x) * a.ld;
  auto* packs = reinterpret_cast<Pack<T, N>*>(x);
  const int64_t whole = classes / N;
  if (!a.targets.counts(at)) {
    if (kGradients) return clear_row(a, row, x, kRowThreads);
    if (threadIdx.x == 0) a.row_loss[row] = 0;
    return;
  }
  const LogitSoftmax<T> mine = softmax_of_part<T, N>(x, classes);
  const W target = widen(x[at]);
  const auto merge = [](LogitSoftmax<T> p, const LogitSoftmax<T>& q) {
    p.merge(q.max, q.sum);
    return p;
  };
  const LogitSoftmax<T> total =
      reduce_in_order<kRowWarps>(mine, merge);  // all threads have read x[at] when it returns
  const W log_sum = log(total.sum), lse = total.max + log_sum;
  const LogitSlopes<W> slopes(a);
  W spread = 0;
  const auto put = [&](T& value, int64_t i) {
    const W v = widen(value);
    spread += total.max - v;
    if (kGradients)
      value = narrow<T>(slopes.scale * exponential<T>(v - lse) - slopes.low - (i == at ? slopes.high : W(0)));
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
  if (a.smoothing != 0) spread = reduce_in_order<kRowWarps>(spread, Add{});
  if (threadIdx.x == 0) a.row_loss[row] = row_loss(a, total.max, log_sum, target, spread);
}

#endif

}  // namespace genesis::cuda
