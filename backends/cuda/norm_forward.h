// rms_norm and layer_norm of many short rows: many of them to a block (row_feed.h), which has the weight and
// the bias in shared memory. Used by kernels/norm.cu.
#pragma once

#include "backends/cuda/norm_rows.h"
#include "backends/cuda/row_feed.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// Writes the norm of a row of which the thread has x.
template <bool kCenter, class T, int N, int K>
__device__ void put_norm(const NormArguments& a, const RowFeed<K>& feed, int turn, const Words (&x)[K],
                         const SharedVector<N>& weight, const SharedVector<N>& bias) {
  const int packs = feed.packs_of(feed.row);
  const float each = 1.0f / static_cast<float>(a.n);
  float mean[1] = {}, squares[1] = {};
  const auto each_element = [&](const auto& body) {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (feed.index(k) < packs)
#pragma unroll
        for (int j = 0; j < N; ++j) body(element_of<T>(x[k], j));
  };
  if constexpr (kCenter) {
    each_element([&](float v) { mean[0] += v; });
    add_over_group(mean, feed.call.group, 2 * turn);
    mean[0] *= each;
  }
  each_element([&](float v) { squares[0] += (v - mean[0]) * (v - mean[0]); });
  add_over_group(squares, feed.call.group, 2 * turn + 1);
  const float inverse = rsqrtf(squares[0] * each + static_cast<float>(a.eps));
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (feed.index(k) >= packs) continue;
    float w[N], y[N] = {};
    weight.get(feed.index(k), w);
    if constexpr (kCenter) bias.get(feed.index(k), y);
#pragma unroll
    for (int j = 0; j < N; ++j) y[j] += (element_of<T>(x[k], j) - mean[0]) * inverse * w[j];
    static_cast<Words*>(a.y)[feed.row * feed.call.packs + feed.index(k)] = words_of<T>(y);
  }
}

template <bool kCenter, class T, int N, int K>
__global__ void __launch_bounds__(RowDeal::kMostThreads, 2)
    norm_kernel(const NormArguments a, const FeedCall call) {
  begin_in_order();
  extern __shared__ __align__(16) unsigned char shared[];
  Words* slots = reinterpret_cast<Words*>(shared);
  RowFeed<K> feed(call, slots);
  feed.fetch(0, 0);
  feed.fetch(0, 1);
  auto* parts = reinterpret_cast<Pack<float, 4>*>(slots + 2 * feed.stage);
  const SharedVector<N> weight{parts, call.packs}, bias{parts + N / 4 * call.packs, call.packs};
  weight.fill(a.weight, 1);
  if constexpr (kCenter) bias.fill(a.bias, 0);
  __syncthreads();
  const int turns = feed.turns();
  for (int turn = 0; turn < turns; ++turn, feed.row += feed.at_once) {
    wait_for_batches<1>();
    Words x[K];
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (feed.index(k) < feed.packs_of(feed.row)) x[k] = feed.slot(turn, 0, k);
    put_norm<kCenter, T, N>(a, feed, turn, x, weight, bias);
    feed.fetch(turn, 2);  // into the slots that are free now
  }
}

// Whether rows are short and many enough for it; then they are done.
template <bool kCenter, class T, int N>
bool try_norm(const KernelContext& c, const NormArguments& a, int64_t rows) {
  constexpr int64_t kChip = 264;  // blocks, two to a multiprocessor
  const int64_t numbers = a.n * (kCenter ? 2 : 1);
  RowDeal deal = RowDeal::of(rows, a.n / N, kChip);
  if (a.n > RowDeal::kLongest || deal.rows_each <= deal.at_once || !deal.fit(1, numbers, shared_room()))
    return false;
  const FeedCall feed{.data = {a.x},
                      .packs = static_cast<int>(a.n / N),
                      .group = deal.group,
                      .rows = rows,
                      .rows_each = deal.rows_each};
  deal.with_held([&](auto k) {
    const size_t bytes = deal.shared_bytes(1, numbers);
    cudaFuncSetAttribute(norm_kernel<kCenter, T, N, k()>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
    start_early(c, norm_kernel<kCenter, T, N, k()>, deal.count, deal.threads(), bytes, a, feed);
  });
  return true;
}

#endif

}  // namespace genesis::cuda
