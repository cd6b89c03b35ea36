// Rows of heads as tiles in shared memory, and tensor core operands read from there, for attention of queries that
// each see a range of the keys. A tile consists of panels with 128 bytes (64 features) of each row, one panel after
// the other.
#pragma once

#include "backends/cuda/attention/visible_keys.h"
#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/tensor_core.h"

namespace genesis::cuda {

// Head sizes for which the kernels are compiled: the features of q and k, and of v and y.
template <int kOfKeys, int kOfValues>
struct HeadSizes {
  static constexpr int kKey = kOfKeys, kValue = kOfValues;
};

// Calls body(HeadSizes) with the sizes of a shape. Returns false and does nothing if the kernels do not exist for them.
template <class Body>
bool with_head_sizes(const AttentionShape& s, const Body& body) {
  if (s.size == 192 && s.v_size == 128) return body(HeadSizes<192, 128>{}), true;
  if (s.size != s.v_size) return false;
  if (s.size == 64) return body(HeadSizes<64, 64>{}), true;
  if (s.size == 80) return body(HeadSizes<80, 80>{}), true;
  if (s.size == 96) return body(HeadSizes<96, 96>{}), true;
  if (s.size == 128) return body(HeadSizes<128, 128>{}), true;
  if (s.size == 256) return body(HeadSizes<256, 256>{}), true;
  return false;
}

// The bytes of a tile: the last panel may be partly unused.
template <int kCount, int kSize>
inline constexpr int kTileBytes = kCount*((kSize + 63) / 64) * 128;

// Copies kCount rows of a head, starting with `first`, into panels; rows from `end` on become zeros.
template <class T, int kSize, int kCount, int kAll>
__device__ __forceinline__ void copy_rows(uint32_t to, const T* head, int64_t step, int64_t first,
                                          int64_t end) {
  constexpr int kPacks = kSize / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kCount * kPacks; i += kAll) {
    const int row = i / kPacks, pack = i % kPacks;
    const bool there = first + row < end;
    copy_or_zero(to + pack / 8 * (kCount * 128) + swizzle_128(row, pack % 8),
                 head + (there ? (first + row) * step + pack * 8 : 0), there);
  }
}

// Accumulators of 16 rows and kCount columns: sums[n] has the eight columns from 8 n on, in the layout of
// multiply_16x8().
template <int kCount>
using Sums = float[kCount / 8][4];

// Computes, per warp, sums += a b^T over the 16 features of `step`: a has kTiles times 16 rows, b all kCount rows of
// a tile.
template <class T, int kCount, int kTiles>
__device__ __forceinline__ void add_dot_products(Sums<kCount> (&sums)[kTiles], const uint32_t (&a)[kTiles][4],
                                                 uint32_t tile, int step) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int pair = 0; pair < kCount / 16; ++pair) {
    uint32_t b[4];  // 8 rows and the next 8, each with 16 features
    ldmatrix(b, tile + step / 4 * (kCount * 128) +
                    swizzle_128(pair * 16 + lane / 16 * 8 + lane % 8, step % 4 * 2 + lane / 8 % 2));
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      multiply_16x8<T>(sums[i][2 * pair], a[i][0], a[i][1], a[i][2], a[i][3], b[0], b[1]);
      multiply_16x8<T>(sums[i][2 * pair + 1], a[i][0], a[i][1], a[i][2], a[i][3], b[2], b[3]);
    }
  }
}

// Loads the 16 features of `step` of 16 rows of a tile of kRows rows, starting with `row`.
template <int kRows>
__device__ __forceinline__ void load_rows(uint32_t (&a)[4], uint32_t tile, int row, int step) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  ldmatrix(a, tile + step / 4 * (kRows * 128) + swizzle_128(row + lane % 16, step % 4 * 2 + lane / 16));
}

// Computes, per warp, sums += a b^T: a is 16 rows of a tile of kRows rows, starting with `row`, b all kCount rows of
// another tile.
template <class T, int kSize, int kRows, int kCount>
__device__ __forceinline__ void add_dot_products(Sums<kCount> (&sums)[1], uint32_t tile, int row,
                                                 uint32_t other) {
#pragma unroll
  for (int step = 0; step < kSize / 16; ++step) {
    uint32_t a[1][4];
    load_rows<kRows>(a[0], tile, row, step);
    add_dot_products<T, kCount>(sums, a, other, step);
  }
}

// Computes, per warp, sums += weights b: weights in the layout of add_dot_products(), b the kCount rows of a tile.
template <class T, int kSize, int kCount, int kTiles>
__device__ __forceinline__ void add_weighted_rows(Sums<kSize> (&sums)[kTiles],
                                                  const Sums<kCount> (&weights)[kTiles], uint32_t tile) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int step = 0; step < kCount / 16; ++step) {
    uint32_t a[kTiles][4];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const float(&low)[4] = weights[i][2 * step], (&high)[4] = weights[i][2 * step + 1];
      a[i][0] = pair_of<T>(low[0], low[1]), a[i][1] = pair_of<T>(low[2], low[3]);
      a[i][2] = pair_of<T>(high[0], high[1]), a[i][3] = pair_of<T>(high[2], high[3]);
    }
#pragma unroll
    for (int pack = 0; pack < kSize / 8; pack += 2) {
      uint32_t b[4];  // 16 rows of 8 features, and of the next 8
      ldmatrix_trans(
          b, tile + pack / 8 * (kCount * 128) + swizzle_128(step * 16 + lane % 16, pack % 8 + lane / 16));
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        multiply_16x8<T>(sums[i][pack], a[i][0], a[i][1], a[i][2], a[i][3], b[0], b[1]);
        multiply_16x8<T>(sums[i][pack + 1], a[i][0], a[i][1], a[i][2], a[i][3], b[2], b[3]);
      }
    }
  }
}

// Stores a warp's sums, times `scale`, as rows of a head, starting with row `first`.
template <class T, int kSize>
__device__ __forceinline__ void store_sums(const Sums<kSize>& sums, float scale, T* head, int64_t step,
                                           int64_t first, int64_t end) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + half * 8 + lane / 4;
    if (row >= end) continue;
    T* to = head + row * step + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kSize / 8; ++n)
      *reinterpret_cast<uint32_t*>(to + 8 * n) =
          pair_of<T>(sums[n][2 * half] * scale, sums[n][2 * half + 1] * scale);
  }
}

// The keys that a row sees.
struct Range {
  int begin, end;
};

}  // namespace genesis::cuda
