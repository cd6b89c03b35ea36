// The gradients of rms_norm and layer_norm in one pass over memory, with dweight and dbias if they are wanted. A
// block has many rows (row_feed.h); its sums of dweight and dbias stay in registers until the block is done.
#pragma once

#include "backends/cuda/rows/norm_rows.h"
#include "backends/cuda/rows/row_feed.h"

namespace genesis::cuda {

struct GradientCall {
  static constexpr int kStages = 2;  // rows of a group in shared memory
  NormArguments a;
  FeedCall feed;             // tensors x, dy, [residual]
  float* dweight = nullptr;  // partial sums, n columns per block; or null. dbias likewise
  float* dbias = nullptr;
};

#ifdef __CUDACC__

// Quantities of a row that the gradient of its elements needs. With g = dy weight and z the normalized row, dx = (g -
// mean(g) - z mean(g z)) / sigma; rms_norm has no mean(g) term.
template <class W>
struct GradientSums {
  W mean, inverse, mean_g, mean_gz;

  __device__ W dx(W x, W dy, W weight) const {
    const W g = dy * weight - mean_g;
    return (g - (x - mean) * inverse * mean_gz) * inverse;
  }
};

// Rows of four-byte elements are loaded with evict-first, so that the L2 cache keeps the output; with two-byte
// elements this is slower.
template <int N, int K>
using GradientFeed = RowFeed<K, GradientCall::kStages, 3, 2, N == 4>;

// Adds the column sums of the groups of a block in order and stores them: first[], then second[] if it is not null.
// `sums` is shared memory for 2 * threads * K * N floats, as planes of four floats, so that no two threads use the
// same bank.
template <int N, int K>
struct BlockSums {
  using Quad = Pack<float, 4>;
  static constexpr int kQuads = N / 4;
  const GradientFeed<N, K>& feed;
  Quad* sums;
  float *first, *second;  // this block's, n columns each; or null

  __device__ void add(const float (&a)[K][N], const float (&b)[K][N]) const {
    __syncthreads();
    const int group = static_cast<int>(threadIdx.x) / feed.call.group;
    if (first) leave(a, group);
    if (second) leave(b, feed.at_once + group);
    __syncthreads();
    const int quads = feed.call.packs * kQuads;
    for (int i = static_cast<int>(threadIdx.x); i < 2 * quads; i += static_cast<int>(blockDim.x)) {
      const bool is_first = i < quads;
      float* to = is_first ? first : second;
      if (to) put(to, is_first ? 0 : feed.at_once, is_first ? i : i - quads);
    }
  }

 private:
  __device__ void leave(const float (&mine)[K][N], int row) const {
    Quad* at = sums + row * kQuads * feed.call.packs;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (feed.index(k) >= feed.call.packs) continue;
#pragma unroll
      for (int j = 0; j < N; ++j) at[j / 4 * feed.call.packs + feed.index(k)].at[j % 4] = mine[k][j];
    }
  }
  // Adds element i of all groups' rows; i counts plane after plane.
  __device__ void put(float* to, int row, int i) const {
    const int packs = feed.call.packs;
    Quad sum{};
    for (int g = 0; g < feed.at_once; ++g) {
      const Quad mine = sums[(row + g) * kQuads * packs + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) sum.at[j] += mine.at[j];
    }
    reinterpret_cast<Quad*>(to)[i % packs * kQuads + i / packs] = sum;
  }
};

// Computes the row's quantities that dx needs. On return d holds x - mean, or x without kCenter.
template <bool kCenter, class T, int N, int K>
__device__ GradientSums<float> gradient_sums(const NormArguments& a, const SharedVector<N>& weight,
                                             const GradientFeed<N, K>& feed, float (&d)[K][N]) {
  const int group = feed.call.group, packs = feed.packs();
  const float each = 1.0f / static_cast<float>(a.n);
  float mean[1] = {};
#pragma unroll
  for (int k = 0; k < K; ++k) {
    feed.template elements<T>(0, k, d[k]);
    if constexpr (kCenter)
#pragma unroll
      for (int j = 0; j < N; ++j) mean[0] += d[k][j];
  }
  if constexpr (kCenter) {
    sum_group<RowDeal::kMaxThreads>(mean, group, feed.round);
    mean[0] *= each;
  }
  float sums[kCenter ? 3 : 2] = {};  // sums of squares, of g d, and of g
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (feed.index(k) >= packs) continue;
    float g[N], w[N];
    feed.template elements<T>(1, k, g);
    weight.get(feed.index(k), w);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if constexpr (kCenter) d[k][j] -= mean[0];
      g[j] *= w[j];
      sums[0] += d[k][j] * d[k][j];
      sums[1] += g[j] * d[k][j];
      if constexpr (kCenter) sums[2] += g[j];
    }
  }
  sum_group<RowDeal::kMaxThreads>(sums, group, feed.round);
  const float inverse = rsqrtf(sums[0] * each + static_cast<float>(a.eps));
  return {mean[0], inverse, kCenter ? sums[kCenter ? 2 : 0] * each : 0.0f, sums[1] * each * inverse};
}

// Writes dx of the row, and the norm's output if it is wanted, and adds to the column sums.
template <bool kCenter, class T, int N, int K>
__device__ void finish_row(const NormArguments& a, const SharedVector<N>& weight,
                           const GradientFeed<N, K>& feed, const GradientSums<float>& s,
                           const float (&d)[K][N], float (&dw)[K][N], float (&db)[K][N]) {
  const int packs = feed.packs();
  const float slope = s.inverse * s.inverse * s.mean_gz, base = s.inverse * s.mean_g;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int i = feed.index(k);
    if (i >= packs) continue;
    const int64_t at = feed.row * feed.call.packs + i;
    float dx[N], w[N];
    feed.template elements<T>(1, k, dx);
    weight.get(i, w);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float scaled = dx[j] * s.inverse;
      dw[k][j] += scaled * d[k][j];
      if constexpr (kCenter) db[k][j] += dx[j];
      dx[j] = scaled * w[j] - (kCenter ? d[k][j] * slope + base : d[k][j] * slope);
    }
    if (a.residual) {
      float past[N];
      feed.template elements<T>(2, k, past);
#pragma unroll
      for (int j = 0; j < N; ++j) dx[j] += past[j];
    }
    static_cast<Words*>(a.y)[at] = words_of<T>(dx);
    if (!a.output) continue;
    float y[N] = {};
    if constexpr (kCenter) a.bias.at(i, 0.0f, y);
#pragma unroll
    for (int j = 0; j < N; ++j) y[j] += d[k][j] * s.inverse * w[j];
    static_cast<Words*>(a.output)[at] = words_of<T>(y);
  }
}

// Registers of a thread: a multiprocessor keeps some free, in which the next kernel can start and wait (PDL).
constexpr int kGradientRegisters = (65536 / RowDeal::kMaxThreads - 4) / 8 * 8;

// GradientCall::kStages rows of every group are in shared memory, one of them in use; the column sums are in
// registers.
template <bool kCenter, class T, int N, int K>
__global__ void __maxnreg__(kGradientRegisters) gradient_kernel(const GradientCall call) {
  begin_in_order();
  extern __shared__ __align__(16) unsigned char shared_rows[];
  // Loads the weight first: few threads wait for it now, and after the rows it would arrive late.
  auto* ring = reinterpret_cast<Words*>(shared_rows);
  const int ring_packs = GradientFeed<N, K>::ring_packs(call.feed);
  const SharedVector<N> weight{reinterpret_cast<Pack<float, 4>*>(ring + ring_packs), call.feed.packs};
  weight.fill(call.a.weight, 1);
  GradientFeed<N, K> feed(call.feed, ring);
  __syncthreads();
  float dw[K][N] = {}, db[K][N] = {};
  const int rounds = feed.rounds();
  for (int round = 0; round < rounds; ++round) {
    feed.wait();
    float d[K][N];
    const GradientSums<float> s = gradient_sums<kCenter, T>(call.a, weight, feed, d);
    finish_row<kCenter, T>(call.a, weight, feed, s, d, dw, db);
    feed.advance();
  }
  const int64_t at = static_cast<int64_t>(blockIdx.x) * call.feed.packs * N;
  const BlockSums<N, K> sums{feed, reinterpret_cast<Pack<float, 4>*>(shared_rows),  // every copy has ended
                             call.dweight ? call.dweight + at : nullptr,
                             kCenter && call.dbias ? call.dbias + at : nullptr};
  sums.add(dw, db);
}

#endif

}  // namespace genesis::cuda
