// The gradients of rms_norm and layer_norm with sums over rows, in one pass over memory. A block has many
// rows (row_feed.h); sums of dweight and dbias stay in registers until it is done. Used by
// kernels/norm_grad.cu.
#pragma once

#include "backends/cuda/norm_rows.h"
#include "backends/cuda/row_feed.h"

namespace genesis::cuda {

struct GradientCall {
  NormArguments a;
  FeedCall feed;             // x, dy, [residual]
  float* dweight = nullptr;  // of each block, n columns; or null
  float* dbias = nullptr;
};

#ifdef __CUDACC__

// What the gradient of a row needs besides its elements: with g = dy weight and z the normalised row,
// dx = (g - mean(g) - z mean(g z)) / sigma; no mean(g) without a centre.
template <class W>
struct GradientSums {
  W mean, inverse, mean_g, mean_gz;

  template <bool kCenter>
  __device__ W dx(W x, W dy, W weight) const {
    const W g = kCenter ? dy * weight - mean_g : dy * weight;
    return (g - (x - mean) * inverse * mean_gz) * inverse;
  }
};

// Adds the groups of the block in order into n columns of `to`. `room`: threads * K * N floats.
template <int N, int K>
__device__ void put_sums(const float (&mine)[K][N], const RowFeed<K>& feed, float* room, float* to) {
  const int n = feed.call.packs * N;
  float* row = room + static_cast<int>(threadIdx.x) / feed.call.group * n;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (feed.index(k) >= feed.call.packs) continue;
#pragma unroll
    for (int j = 0; j < N; ++j) row[feed.index(k) * N + j] = mine[k][j];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int g = 0; g < feed.at_once; ++g) sum += room[g * n + i];
    to[i] = sum;
  }
}

// The row in work, x (0), dy (1) and the residual (2): x and dy in registers where there are enough, which is
// without sums of dbias.
template <bool kHold, int K>
struct RowInWork {
  const RowFeed<K>& feed;
  int turn, packs;  // 0 packs: there is no row
  Words held[2][K];

  __device__ RowInWork(const RowFeed<K>& f, int at_turn) : feed(f), turn(at_turn), packs(f.packs_of(f.row)) {
    if constexpr (kHold)
      each([&](int k, int) {
        held[0][k] = feed.slot(turn, 0, k);
        held[1][k] = feed.slot(turn, 1, k);
      });
  }
  __device__ Words get(int tensor, int k) const {
    return kHold && tensor < 2 ? held[tensor][k] : feed.slot(turn, tensor, k);
  }
  // body(k, its index in the row) for the packs of this thread.
  template <class Body>
  __device__ void each(const Body& body) const {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (feed.index(k) < packs) body(k, feed.index(k));
  }
};

template <bool kCenter, class T, int N, class Row>
__device__ GradientSums<float> gradient_sums(const NormArguments& a, const SharedVector<N>& weight,
                                             const Row& row) {
  const int group = row.feed.call.group;
  const float each = 1.0f / static_cast<float>(a.n);
  float mean[1] = {};
  if constexpr (kCenter) {
    row.each([&](int k, int) {
      const Words x = row.get(0, k);
#pragma unroll
      for (int j = 0; j < N; ++j) mean[0] += element_of<T>(x, j);
    });
    add_over_group(mean, group, row.turn);
    mean[0] *= each;
  }
  float sums[kCenter ? 3 : 2] = {};  // of squares, of g z sigma, of g
  row.each([&](int k, int i) {
    const Words x = row.get(0, k), dy = row.get(1, k);
    float w[N];
    weight.get(i, w);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float d = element_of<T>(x, j) - mean[0], g = element_of<T>(dy, j) * w[j];
      sums[0] += d * d;
      sums[1] += g * d;
      if constexpr (kCenter) sums[2] += g;
    }
  });
  add_over_group(sums, group, row.turn);
  const float inverse = rsqrtf(sums[0] * each + static_cast<float>(a.eps));
  return {mean[0], inverse, kCenter ? sums[kCenter ? 2 : 0] * each : 0.0f, sums[1] * each * inverse};
}

// Writes dx of the row, and the norm's output where it is asked for, and adds to the sums of its columns.
template <bool kCenter, class T, int N, int K, class Row>
__device__ void finish_row(const NormArguments& a, const SharedVector<N>& weight, const Row& row,
                           const GradientSums<float>& s, float (&dw)[K][N], float (&db)[K][N]) {
  const float slope = s.inverse * s.inverse * s.mean_gz, base = s.inverse * s.mean_g;
  row.each([&](int k, int i) {
    const Words x = row.get(0, k), dy = row.get(1, k);
    const Words past = a.residual ? row.get(2, k) : Words{};
    float w[N], dx[N];
    weight.get(i, w);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float d = element_of<T>(x, j) - s.mean, g = element_of<T>(dy, j), scaled = g * s.inverse;
      dw[k][j] += scaled * d;
      if constexpr (kCenter) db[k][j] += g;
      dx[j] = scaled * w[j] - (kCenter ? d * slope + base : d * slope);
      if (a.residual) dx[j] += element_of<T>(past, j);
    }
    const int64_t at = row.feed.row * row.feed.call.packs + i;
    static_cast<Words*>(a.y)[at] = words_of<T>(dx);
    if (!a.output) return;
    float b[N] = {};
    if constexpr (kCenter) a.bias.at(i, 0.0f, b);
#pragma unroll
    for (int j = 0; j < N; ++j) b[j] += (element_of<T>(x, j) - s.mean) * s.inverse * w[j];
    static_cast<Words*>(a.output)[at] = words_of<T>(b);
  });
}

// Two rows of every group are in shared memory, one of them in work, and the sums of columns in registers.
template <bool kCenter, class T, int N, int K>
__global__ void __launch_bounds__(RowDeal::kMostThreads, 1) gradient_kernel(const GradientCall call) {
  begin_in_order();
  extern __shared__ __align__(16) unsigned char shared[];
  Words* slots = reinterpret_cast<Words*>(shared);
  RowFeed<K> feed(call.feed, slots);
  feed.fetch(0, 0);
  feed.fetch(0, 1);
  const SharedVector<N> weight{reinterpret_cast<Pack<float, 4>*>(slots + 2 * feed.stage), call.feed.packs};
  weight.fill(call.a.weight, 1);
  __syncthreads();
  float dw[K][N] = {}, db[K][N] = {};
  const int turns = feed.turns();
  for (int turn = 0; turn < turns; ++turn, feed.row += feed.at_once) {
    wait_for_batches<1>();
    const RowInWork<!kCenter, K> row(feed, turn);
    const GradientSums<float> s = gradient_sums<kCenter, T>(call.a, weight, row);
    finish_row<kCenter, T>(call.a, weight, row, s, dw, db);
    feed.fetch(turn, 2);  // into the slots that are free now
  }
  float* room = reinterpret_cast<float*>(shared);  // every copy is over
  const int64_t at = static_cast<int64_t>(blockIdx.x) * call.feed.packs * N;
  if (call.dweight) put_sums<N, K>(dw, feed, room, call.dweight + at);
  if (kCenter && call.dbias) put_sums<N, K>(db, feed, room, call.dbias + at);
}

#endif

}  // namespace genesis::cuda
