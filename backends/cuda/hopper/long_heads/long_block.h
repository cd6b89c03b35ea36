// The blocks of long_heads.h: their rows and the tiles that they pass over, the warp that brings both into shared memory, and
// the sums of a warpgroup.
#pragma once

#include "backends/cuda/attention/visible_keys.h"
#include "backends/cuda/device/online_softmax.h"
#include "backends/cuda/hopper/long_heads/long_products.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda::hopper {

constexpr int kLongRows = 64, kLongTile = 32, kLongThreads = 384;

// The results that a kernel computes: y, dq, dk or dv.
enum class LongPass { kForward, kQueries, kKeys, kValues };

// The rows of a block are those of `first`, and of `second` in the passes that need dp. Scores are the products of
// `first` and the tiles of `third`, dp those of `second` and the tiles of `fourth`.
struct LongMaps {
  CUtensorMap first, second, third, fourth;
};

template <int kHeadSize, LongPass kComputes>
struct LongSizes {
  static constexpr int kSize = kHeadSize;
  static constexpr LongPass kPass = kComputes;
  static constexpr bool kOfKeys = kPass == LongPass::kKeys || kPass == LongPass::kValues;  // the block's rows
  static constexpr bool kHasSlopes = kPass == LongPass::kQueries || kPass == LongPass::kKeys;  // it needs dp
  static constexpr int kPanels = kSize / 64;  // a panel has 64 features, 128 bytes of each row
  static constexpr int kRowBytes = kLongRows * kSize * 2, kTileBytes = kLongTile * kSize * 2;
  static constexpr int kStages = kHasSlopes && kSize > 256 ? 1 : 2;
  static constexpr int kOperands = kHasSlopes ? 2 : 1;  // the block's rows are those of this many tensors
  static constexpr int kAlignment = 1024;
  static constexpr int kShared = kAlignment + kOperands * kRowBytes + 2 * kStages * kTileBytes;
};

// The keys that a query sees.
struct KeyRange {
  int begin = 0, end = 0;
  __device__ __forceinline__ bool has(int key) const { return key >= begin && key < end; }
};

// The gradient of a query needs this besides its rows. lse is in units of log2, and infinite if the query sees no key.
struct QueryStatistics {
  float lse = INFINITY, delta = 0;
  KeyRange sees;
};

struct LongBarriers {
  uint64_t rows;
  uint64_t filled[2][2], free[2][2];  // [`third` or `fourth`][stage] of the tiles
};

#ifdef GENESIS_HOPPER

// The rows of a block, and the tiles of the other side that they need.
template <class S>
struct LongBlock {
  const AttentionShape& s;
  const AttentionData& d;
  int b, head, row0;  // `head` is that of the block's rows
  VisibleKeys visible;
  int first_head, begin, per_head,
      count;  // the other side's first head and row, its tiles per head and in all

  __device__ __forceinline__ LongBlock(const AttentionShape& s, const AttentionData& d, int row_tiles)
      : s(s),
        d(d),
        b(static_cast<int>(blockIdx.x / row_tiles / heads())),
        head(static_cast<int>(blockIdx.x / row_tiles % heads())),
        row0(first_row(row_tiles)),
        visible(s, d, b) {
    const int group = static_cast<int>(s.heads / s.key_heads);
    int end;
    if constexpr (S::kOfKeys) {
      const int rows = static_cast<int>(visible.count);
      first_head = head * group;
      begin = static_cast<int>(visible.first(s, row0));
      end = row0 < rows ? static_cast<int>(visible.past(s, min(row0 + kLongRows, rows) - 1)) : 0;
    } else {
      first_head = head / group;
      begin = range_of(row0).begin;
      end = range_of(min(row0 + kLongRows, static_cast<int>(s.queries)) - 1).end;
    }
    begin = begin / kLongTile * kLongTile;
    per_head = end > begin ? (end - begin + kLongTile - 1) / kLongTile : 0;
    count = S::kOfKeys ? group * per_head : per_head;
  }
  __device__ __forceinline__ int64_t heads() const { return S::kOfKeys ? s.key_heads : s.heads; }
  __device__ __forceinline__ int head_of_tile(int i) const { return first_head + i / per_head; }
  __device__ __forceinline__ int row_of_tile(int i) const { return begin + i % per_head * kLongTile; }
  __device__ __forceinline__ KeyRange range_of(int query) const {
    if (query >= s.queries) return {};
    return {static_cast<int>(visible.begin(s, query)), static_cast<int>(visible.end(s, query))};
  }
  __device__ __forceinline__ QueryStatistics statistics_of(int query_head, int query) const {
    QueryStatistics found;
    if (query >= s.queries) return found;
    const int64_t at = (int64_t{b} * s.heads + query_head) * s.queries + query;
    const float lse = static_cast<const float*>(d.lse)[at];
    if (lse != -INFINITY) found.lse = lse * kLog2E;
    found.delta = reinterpret_cast<const float*>(d.scratch)[at];
    found.sees = range_of(query);
    return found;
  }

 private:
  // The rows with the most work come first: the last queries, and the first keys.
  __device__ static int first_row(int row_tiles) {
    const int tile = static_cast<int>(blockIdx.x) % row_tiles;
    return (S::kOfKeys ? tile : row_tiles - 1 - tile) * kLongRows;
  }
};

// The addresses of a block's operands in shared memory.
template <class S>
struct LongMemory {
  uint32_t start;
  QueryStatistics (&columns)[2][kLongTile];  // [stage][query of the tile]
  __device__ uint32_t rows(int operand) const { return start + operand * S::kRowBytes; }
  __device__ uint32_t tile(int operand, int stage) const {
    return start + S::kOperands * S::kRowBytes + (operand * S::kStages + stage) * S::kTileBytes;
  }
};

// Runs in one warp.
template <class S>
struct LongProducer {
  const LongMaps& maps;
  const LongBlock<S>& block;
  LongMemory<S> memory;
  LongBarriers& barriers;

  __device__ void copy(uint32_t to, const CUtensorMap* map, uint64_t* barrier, int rows, int row,
                       int head) const {
    for (int panel = 0; panel < S::kPanels; ++panel)
      copy_rows(to + panel * rows * 128, map, shared_address(barrier), row, head, block.b, panel * 64);
  }
  __device__ void fill_rows() const {
    expect_bytes(&barriers.rows, S::kOperands * S::kRowBytes);
    copy(memory.rows(0), &maps.first, &barriers.rows, kLongRows, block.row0, block.head);
    if (S::kHasSlopes) copy(memory.rows(1), &maps.second, &barriers.rows, kLongRows, block.row0, block.head);
  }
  __device__ void run() const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    if (lane == 0 && block.count > 0) fill_rows();
    RingStage<S::kStages> stage{0, 1};
    for (int i = 0; i < block.count; ++i, stage.advance()) {
      const int row = block.row_of_tile(i), head = block.head_of_tile(i);
      // The statistics are in use until both tiles are free.
      wait_for_phase(&barriers.free[0][stage.index], stage.parity);
      if (S::kOfKeys) {
        wait_for_phase(&barriers.free[1][stage.index], stage.parity);
        memory.columns[stage.index][lane] = block.statistics_of(head, row + lane);
      }
      __syncwarp();
      for (int operand = 0; operand < 2; ++operand) {
        uint64_t* filled = &barriers.filled[operand][stage.index];
        wait_for_phase(&barriers.free[operand][stage.index], stage.parity);
        if (lane > 0) continue;
        expect_bytes(filled, S::kTileBytes);
        copy(memory.tile(operand, stage.index), operand ? &maps.fourth : &maps.third, filled, kLongTile, row,
             head);
      }
    }
  }
};

// Computes d = a b^T: a are the block's rows of an operand, b is a tile.
template <class S>
__device__ __forceinline__ void start_scores(float (&d)[16], uint32_t a, uint32_t b) {
  const uint64_t of_a = describe(a, 1024), of_b = describe(b, 1024);
#pragma unroll
  for (int panel = 0; panel < S::kPanels; ++panel)
#pragma unroll
    for (int step = 0; step < 4; ++step)
      multiply_rows(d, moved(of_a, panel * kLongRows * 128 + step * 32),
                    moved(of_b, panel * kLongTile * 128 + step * 32), panel + step > 0);
}

// The weights of a warpgroup's rows, rounded, in the layout of a left operand: two steps of 16 columns.
struct LongWeights {
  uint32_t of_step[2][4];
  __device__ __forceinline__ void round(const float (&scores)[16]) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      of_step[i / 4][i % 4] = pair_of<__nv_bfloat16>(scores[2 * i], scores[2 * i + 1]);
  }
};

// A warpgroup's sums: 64 rows, and the half of the features that starts with kSize / 2 * half.
template <class S>
struct LongSums {
  static constexpr int kCount = S::kSize / 4;
  float at[kCount] = {};

  // Adds the weighted rows of a tile.
  __device__ __forceinline__ void start_add(const LongWeights& weights, uint32_t tile, int half) {
    const uint32_t mine = tile + half * (S::kPanels / 2) * kLongTile * 128;
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      add_weighted<0>(at, weights.of_step[step], describe(mine + step * 2048, 1024, kLongTile * 128));
      if constexpr (kCount > 64)
        add_weighted<64>(at, weights.of_step[step],
                         describe(mine + 2 * kLongTile * 128 + step * 2048, 1024, kLongTile * 128));
    }
  }
  // Stores the rows, times by[0] and by[1] for a thread's two rows, from row `first` of a head on.
  __device__ __forceinline__ void store(const float (&by)[2], __nv_bfloat16* head, int64_t step,
                                        int64_t first, int64_t end, int half) const {
    const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % kLanes;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t row = first + thread / kLanes * 16 + lane / 4 + 8 * i;
      if (row >= end) continue;
      auto* to = head + row * step + half * (S::kSize / 2) + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kCount / 4; ++n)
        *reinterpret_cast<uint32_t*>(to + 8 * n) =
            pair_of<__nv_bfloat16>(at[4 * n + 2 * i] * by[i], at[4 * n + 2 * i + 1] * by[i]);
    }
  }
};

#endif

}  // namespace genesis::cuda::hopper
