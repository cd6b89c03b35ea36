// Splits the gradient of attention into items, which the blocks of attention_gradient.h take, and has the producer
// thread that brings their operands into shared memory. An item is 128 keys of a key head, or 128 queries of a head,
// with all tiles of 64 rows of the other side that they need; items share only inputs. With kStarts, queries see keys
// from their own start on. Starts never decrease, so the tiles of an item are still one contiguous range; the tables
// below give it.
#pragma once

#include <cuda_bf16.h>

#include "backends/cuda/hopper/hopper.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda::hopper {

constexpr int kItemRows = 128, kGradientTileRows = 64, kGradientStages = 8, kGradientThreads = 384;
constexpr int kBytesOfTile = kGradientTileRows * 128;
constexpr int kStatisticsBytes = 2 * kGradientTileRows * 4;  // lse and delta of a tile's rows
constexpr int kStartsBytes = kGradientTileRows * 4;          // first visible keys of a tile's rows
constexpr int kGradientStageBytes = 2 * kBytesOfTile + 1024;
constexpr int kItemBytes = 4 * kBytesOfTile + 1024, kStagingBytes = 8 * 2048;
constexpr size_t kGradientShared = 1024 + kGradientStages * kGradientStageBytes + kItemBytes + kStagingBytes;

struct HeadRows {
  __nv_bfloat16* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;  // strides in elements
};

struct GradientSizes {
  int batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0;
  bool causal = false;
  float scale = 1;
  // [batch, heads, padded_queries()], each 16 rows ordered by place_of_row(): -lse / scale and -delta, the initial
  // values of the products' accumulators.
  float *lse = nullptr, *delta = nullptr;
  int* taken = nullptr;             // number of items taken from the list after each block's first
  const int64_t* starts = nullptr;  // [batch, queries]; null: every query sees keys from the first on
  // Tables made from the starts. first_keys: the first key of each query, [batch, padded_queries()], each 16 ordered
  // by place_of_row(). For each tile of keys, [batch, key_tiles()], seen_by is the number of queries that start no
  // later than its last key, and seen_whole_by the number that start no later than its first.
  int *first_keys = nullptr, *seen_by = nullptr, *seen_whole_by = nullptr;
  HeadRows dq, dk, dv;

  __host__ __device__ int shift() const { return keys - queries; }  // query i sees keys up to i + shift
  __host__ __device__ int query_blocks() const { return (queries + kItemRows - 1) / kItemRows; }
  __host__ __device__ int key_blocks() const { return (keys + kItemRows - 1) / kItemRows; }
  __host__ __device__ int key_tiles() const { return (keys + kGradientTileRows - 1) / kGradientTileRows; }
  __host__ __device__ int padded_queries() const { return query_blocks() * kItemRows; }
  __host__ __device__ int key_items() const { return batch * key_heads * key_blocks(); }
  __host__ __device__ int items() const { return key_items() + batch * heads * query_blocks(); }
  __host__ __device__ int group() const { return heads / key_heads; }
};

// Returns the index of a row's statistic: of 16 columns, the four that a thread has of a product are contiguous.
__host__ __device__ constexpr int place_of_row(int row) {
  return row / 16 * 16 + row % 8 / 2 * 4 + row / 8 % 2 * 2 + row % 2;
}

struct GradientMaps {
  CUtensorMap q, k, v, dy;
};

#ifdef GENESIS_HOPPER

// 128 keys or queries of a head, and the range of tiles of the other side that they need.
struct GradientItem {
  bool of_keys = false;
  int first = 0, head = 0, entry = 0;
  int first_tile = 0, end_tile = 0;
};

template <bool kStarts>
__device__ __forceinline__ GradientItem item_at(int i, const GradientSizes& s) {
  GradientItem item;
  const int per_key_block = s.batch * s.key_heads, per_query_block = s.batch * s.heads;
  item.of_keys = i < s.key_items();
  if (item.of_keys) {
    item.first = i / per_key_block * kItemRows;
    item.entry = i % per_key_block / s.key_heads;
    item.head = i % s.key_heads;
    item.first_tile = s.causal ? max(0, item.first - s.shift()) / kGradientTileRows : 0;
    int end = s.queries;
    if constexpr (kStarts)
      end =
          s.seen_by[item.entry * s.key_tiles() + min(item.first / kGradientTileRows + 1, s.key_tiles() - 1)];
    item.end_tile = (end + kGradientTileRows - 1) / kGradientTileRows;
  } else {
    const int j = i - s.key_items();
    item.first = (s.query_blocks() - 1 - j / per_query_block) * kItemRows;
    item.entry = j % per_query_block / s.heads;
    item.head = j % s.heads;
    const int end = s.causal ? min(s.keys, item.first + kItemRows + s.shift()) : s.keys;
    if constexpr (kStarts)
      item.first_tile = s.first_keys[item.entry * s.padded_queries() + item.first] / kGradientTileRows;
    item.end_tile = (end + kGradientTileRows - 1) / kGradientTileRows;
  }
  return item;
}

struct GradientBarriers {
  uint64_t filled[kGradientStages], free[kGradientStages];
  uint64_t item_filled, item_free;
  int item;
};

__device__ __forceinline__ void init(GradientBarriers& b) {
  for (int i = 0; i < kGradientStages; ++i) {
    init_barrier(&b.filled[i], 1);
    init_barrier(&b.free[i], 8);  // consumer warps
  }
  init_barrier(&b.item_filled, 1);
  init_barrier(&b.item_free, 8);
  let_copies_see_barriers();
}

// The layout of a block's shared memory.
struct GradientMemory {
  uint8_t* start;
  __device__ uint8_t* stage(int i) const { return start + i * kGradientStageBytes; }
  __device__ uint8_t* item() const { return start + kGradientStages * kGradientStageBytes; }
  __device__ uint8_t* item_statistics(int half) const {
    return item() + 4 * kBytesOfTile + half * kGradientTileRows * 4;
  }
  __device__ uint8_t* staging(int warp) const { return item() + kItemBytes + warp * 2048; }
};

// --- the producer, one thread

template <bool kStarts>
struct GradientProducer {
  const GradientMaps& maps;
  const GradientSizes& s;
  GradientMemory memory;
  GradientBarriers& barriers;
  RingStage<kGradientStages> stage{0, 1};

  __device__ void copy_statistics(uint8_t* to, int entry, int head, int row, int rows, uint64_t* barrier) {
    const int64_t from = (static_cast<int64_t>(entry) * s.heads + head) * s.padded_queries() + row;
    copy_to_shared(to, s.lse + from, rows * 4, barrier);
    copy_to_shared(to + rows * 4, s.delta + from, rows * 4, barrier);
  }

  __device__ void fill_item(const GradientItem& item) {
    const CUtensorMap *first = item.of_keys ? &maps.k : &maps.q, *second = item.of_keys ? &maps.v : &maps.dy;
    expect_bytes(&barriers.item_filled, 4 * kBytesOfTile + (item.of_keys ? 0 : 2 * kStatisticsBytes));
    const uint32_t to = shared_address(memory.item()), filled = shared_address(&barriers.item_filled);
    for (int half = 0; half < 2; ++half) {
      const int row = item.first + half * kGradientTileRows;
      copy_rows(to + half * kBytesOfTile, first, filled, row, item.head, item.entry);
      copy_rows(to + (2 + half) * kBytesOfTile, second, filled, row, item.head, item.entry);
    }
    if (!item.of_keys)
      copy_statistics(memory.item() + 4 * kBytesOfTile, item.entry, item.head, item.first, kItemRows,
                      &barriers.item_filled);
  }

  __device__ void fill_stage(const GradientItem& item, int tile, int head) {
    uint64_t* filled = &barriers.filled[stage.index];
    const CUtensorMap *first = item.of_keys ? &maps.q : &maps.k, *second = item.of_keys ? &maps.dy : &maps.v;
    wait_for_phase(&barriers.free[stage.index], stage.parity);
    expect_bytes(filled,
                 2 * kBytesOfTile + (item.of_keys ? kStatisticsBytes + (kStarts ? kStartsBytes : 0) : 0));
    const uint32_t to = shared_address(memory.stage(stage.index));
    const int row = tile * kGradientTileRows;
    copy_rows(to, first, shared_address(filled), row, head, item.entry);
    copy_rows(to + kBytesOfTile, second, shared_address(filled), row, head, item.entry);
    uint8_t* statistics = memory.stage(stage.index) + 2 * kBytesOfTile;
    if (item.of_keys) copy_statistics(statistics, item.entry, head, row, kGradientTileRows, filled);
    if (kStarts && item.of_keys)
      copy_to_shared(statistics + kStatisticsBytes, s.first_keys + item.entry * s.padded_queries() + row,
                     kStartsBytes, filled);
    stage.advance();
  }

  __device__ void run() {
    uint32_t parity = 1;
    for (int i = blockIdx.x;; parity ^= 1) {
      wait_for_phase(&barriers.item_free, parity);
      barriers.item = i;
      if (i >= s.items()) return arrive(&barriers.item_filled, 1);
      const GradientItem item = item_at<kStarts>(i, s);
      fill_item(item);
      const int heads = item.of_keys ? s.group() : 1,
                first_head = item.of_keys ? item.head * heads : item.head / s.group();
      for (int head = 0; head < heads; ++head)
        for (int tile = item.first_tile; tile < item.end_tile; ++tile)
          fill_stage(item, tile, first_head + head);
      i = gridDim.x + atomicAdd(s.taken, 1);  // not earlier: idle blocks should take items first
    }
  }
};

#endif

}  // namespace genesis::cuda::hopper
