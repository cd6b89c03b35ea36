// The operands of skinny_gemm.cu: the rows of a block, the elements of weights and x that each lane copies into its
// own ring, and their products by tensor cores. Device code for that file alone.
#pragma once

#include "backends/cuda/device/cluster.h"
#include "backends/cuda/device/lane_ring.h"
#include "backends/cuda/device/tensor_core.h"
#include "backends/cuda/gemm/few_rows/row_products.h"

namespace genesis::cuda::skinny_gemm {

constexpr int kTile = 16, kStep = 32;

// Number of warps; four tiles take twice the registers.
template <int kTiles>
constexpr int kWarpsOf = kTiles == 4 ? 4 : 8;

template <int kTiles, int kColumns>
struct Sizes {
  static constexpr int kWarps = kWarpsOf<kTiles>, kAll = kWarps * kLanes;
  static constexpr int kEights = kColumns;  // groups of eight rows of x
  static constexpr int kWeights = 2 * kTiles, kPacks = kWeights + kColumns;
  // Steps in flight: a block takes less than half of a multiprocessor's shared memory, so that the next kernel's
  // blocks fit beside it.
  using Ring = LaneRing<kPacks, kTiles == 2 ? 3 : 4>;
  static constexpr int kRing = Ring::kWarpBytes;
  static constexpr int kSums =
      kTiles * kColumns * kLanes;  // accumulators of four numbers each, as a tensor core returns them
  static constexpr int kSharedBytes = kWarps * kRing + kSums * 16;
  static_assert(kRing >= kSums * 16, "a warp puts its sums where its ring was");
};

// The copies of a lane 4 * g + t: rows g and g + 8 of every tile and row g of every eight rows of x. Of each step it
// copies the eight elements of quarter t.
template <class T, int kTiles, int kColumns, int kTileRows>
struct LaneFeed {
  using S = Sizes<kTiles, kColumns>;
  const T *low, *high;  // rows of the first tile
  const T* x;
  int tile_step, x_step;  // elements to the next tile, and to the next eight rows of x
  int k, rows, low_rows,
      high_rows;  // elements of a row; rows of x and of weights, from the lane's own on
  typename S::Ring ring;

  __device__ __forceinline__ int element(int step) const {
    return step * kStep + static_cast<int>(threadIdx.x) % 4 * 8;
  }
  // Elements past the end of k, and rows that do not exist, become zeros. Steps that start past the end are never
  // read.
  __device__ __forceinline__ bool has(int step) const { return step * kStep < k; }
  __device__ __forceinline__ void ask_weights(int stage, int step) const {
    if (!has(step)) return;
    const int i = element(step);
    const bool there = i < k;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int from = tile * tile_step + i;
      const bool has_low = there && tile * kTileRows < low_rows,
                 has_high = there && tile * kTileRows < high_rows;
      copy_or_zero(ring.at(stage, 2 * tile), low + (has_low ? from : 0), has_low);
      copy_or_zero(ring.at(stage, 2 * tile + 1), high + (has_high ? from : 0), has_high);
    }
  }
  __device__ __forceinline__ void ask_x(int stage, int step) const {
    if (!has(step)) return;
    const int i = element(step);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const bool there = i < k && 8 * c < rows;
      copy_or_zero(ring.at(stage, S::kWeights + c), x + (there ? c * x_step + i : 0), there);
    }
  }
};

// The rows of a layer that a block has.
struct BlockRows {
  int layer = 0, rank = 0;
  int64_t first = 0;  // row of the layer; for a swiglu, of both gate and up
};

// Results of a tile. A tile of a swiglu has eight rows of gate and eight of up, so that one lane has the sums of
// both.
template <bool kSwiglu>
constexpr int kResults = kSwiglu ? kTile / 2 : kTile;

template <int kTiles, bool kSwiglu>
__device__ __forceinline__ BlockRows rows_of_block(const RowProducts& p, const RowSplit& split, int parts) {
  BlockRows rows;
  const int64_t block = static_cast<int64_t>(blockIdx.x) / parts;
  rows.rank = static_cast<int>(blockIdx.x) % parts;
  rows.layer = split.layer_of(p, kSwiglu, block);
  rows.first = (block - split.first[rows.layer]) * kTiles * kResults<kSwiglu>;
  return rows;
}

template <class T, class Feed, bool kSwiglu>
__device__ __forceinline__ Feed feed_of(const RowProducts& p, const BlockRows& rows, unsigned char* shared) {
  const RowProducts::Layer &low = p.layer[rows.layer], &high = p.layer[kSwiglu ? 1 : rows.layer];
  const int g = static_cast<int>(threadIdx.x) % kLanes / 4;
  Feed feed;
  const int64_t row = rows.first + g, left = low.n - row;
  feed.low_rows = static_cast<int>(left);
  feed.high_rows = static_cast<int>(kSwiglu ? left : left - 8);
  feed.low = static_cast<const T*>(low.weight) + (feed.low_rows > 0 ? row * p.k : 0);
  feed.high = static_cast<const T*>(high.weight) + (feed.high_rows > 0 ? (row + (kSwiglu ? 0 : 8)) * p.k : 0);
  feed.tile_step = static_cast<int>(kResults<kSwiglu> * p.k);
  feed.rows = static_cast<int>(p.m) - g;
  feed.x = static_cast<const T*>(p.x) + (feed.rows > 0 ? g * p.lda : 0);
  feed.x_step = static_cast<int>(8 * p.lda);
  feed.k = static_cast<int>(p.k);
  feed.ring = typename Feed::S::Ring(shared);
  return feed;
}

template <class T, class Feed, int kTiles, int kColumns>
__device__ __forceinline__ void multiply_step(const Feed& feed, int stage,
                                              float (&sums)[kTiles][kColumns][4]) {
  using S = typename Feed::S;
  Words x[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) x[c] = feed.ring.read(stage, S::kWeights + c);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const Words low = feed.ring.read(stage, 2 * tile), high = feed.ring.read(stage, 2 * tile + 1);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) multiply_32<T>(sums[tile][c], low, high, x[c]);
  }
}

// Prefetches the first bytes of a block's rows into the L2 cache: `ahead` bytes of a row for each block of the
// cluster.
template <class T, int kTiles, bool kSwiglu>
__device__ __forceinline__ void ask_into_cache(const RowProducts& p, const BlockRows& rows, int ahead) {
  // The prefetches of a warp's lanes are issued one after the other, so every warp takes some.
  constexpr int kWarps = kWarpsOf<kTiles>;
  const int thread = static_cast<int>(threadIdx.x), from = rows.rank * ahead,
            i = thread % kLanes * kWarps + thread / kLanes;
  const int bytes = min(ahead, static_cast<int>(p.k * sizeof(T)) - from);
  if (i >= kTiles * kTile || bytes <= 0) return;
  const bool is_up = kSwiglu && i >= kTiles * kResults<kSwiglu>;
  const RowProducts::Layer& layer = p.layer[is_up ? 1 : rows.layer];
  const int64_t row = rows.first + i - (is_up ? kTiles * kResults<kSwiglu> : 0);
  if (row >= layer.n) return;
  const char* weights = static_cast<const char*>(layer.weight) + row * p.k * sizeof(T);
  prefetch_into_cache(weights + from, static_cast<uint32_t>(bytes));
}

// Multiplies one warp's share of k: every `stride`th step from `step` on.
template <class T, class Feed, int kTiles, int kColumns>
__device__ __forceinline__ void multiply_all(const Feed& feed, bool independent, int step, int stride,
                                             float (&sums)[kTiles][kColumns][4]) {
  using Ring = typename Feed::S::Ring;
  Ring::fill(step, stride, [&](int stage, int i) {
    if (!independent) feed.ask_weights(stage, i);
    feed.ask_x(stage, i);
  });
  Ring::drain(
      step, stride, [&](int i) { return feed.has(i); },
      [&](int stage, int) { multiply_step<T>(feed, stage, sums); },
      [&](int stage, int i) {
        feed.ask_weights(stage, i);
        feed.ask_x(stage, i);
      });
}

}  // namespace genesis::cuda::skinny_gemm
