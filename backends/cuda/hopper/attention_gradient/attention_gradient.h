// The gradient of attention in bf16 with heads of 64, on Hopper chips.
//
//   p = exp(scale q k^T - lse)    dp = dy v^T    ds = p (dp - delta)
//   dv = p^T dy    dk = scale ds^T q    dq = scale ds k
//
// Every sum stays in the registers of one warpgroup from its first term to its last, so its order is fixed and
// nothing is accumulated in memory. In return, p and ds are computed twice, 7 products instead of 5: once by a
// warpgroup that has 64 keys (of all query heads that share them) and passes over the queries, and once by one that
// has 64 queries and passes over the keys. Both get the scores in the accumulator layout of the tensor cores, which
// is also the layout of the left operand of the next product: scores never leave registers.
//
// A block has two such warpgroups, for 128 keys or queries (an item), and one thread that keeps a ring filled with
// tiles of 64 rows of the other side. Blocks take items from a common list, the longest first, so that all end at
// about the same time; the results do not depend on which block takes which item.
#pragma once

#include "backends/cuda/device/exponential.h"
#include "backends/cuda/hopper/attention_gradient/attention_gradient_items.h"

namespace genesis::cuda::hopper {

#ifdef GENESIS_HOPPER

// 64 rows of 64 elements in the layout of a left operand.
struct LeftRows {
  uint32_t of_depth[4][4];

  __device__ __forceinline__ void load(uint32_t tile) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) ldmatrix(of_depth[i], tile + swizzle_128(row, 2 * i + lane / 16));
  }
};

// A barrier for the compiler: computations of `rows` are not moved beyond it.
__device__ __forceinline__ void pin(LeftRows& rows) {
#pragma unroll
  for (int i = 0; i < 16; ++i) asm volatile("" : "+r"(rows.of_depth[i / 4][i % 4])::"memory");
}

// Computes d += a b^T.
__device__ __forceinline__ void add_rows_product(float (&d)[32], const LeftRows& a, uint32_t b) {
  const uint64_t of_b = describe(b, 1024);
#pragma unroll
  for (int i = 0; i < 4; ++i) multiply<false>(d, a.of_depth[i], moved(of_b, i * 32), true);
}

// Computes d += a b.
__device__ __forceinline__ void add_product(float (&d)[32], const LeftRows& a, uint32_t b) {
  const uint64_t of_b = describe(b, 1024);
#pragma unroll
  for (int i = 0; i < 4; ++i) multiply<true>(d, a.of_depth[i], moved(of_b, i * 2048), true);
}

// Sets d to the statistics of the columns, which are ordered by place_of_row().
__device__ __forceinline__ void start_with_columns(float (&d)[32], const uint8_t* statistics) {
  const float4* mine = reinterpret_cast<const float4*>(statistics) + threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 x = mine[4 * i];
    d[8 * i] = d[8 * i + 2] = x.x;
    d[8 * i + 1] = d[8 * i + 3] = x.y;
    d[8 * i + 4] = d[8 * i + 6] = x.z;
    d[8 * i + 5] = d[8 * i + 7] = x.w;
  }
}

// The statistics of a thread's two rows; start() sets d to them.
struct RowStatistics {
  float first, second;
  __device__ __forceinline__ explicit RowStatistics(const uint8_t* statistics) {
    const int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    const float* all = reinterpret_cast<const float*>(statistics);
    first = all[place_of_row(row)];
    second = all[place_of_row(row + 8)];
  }
  __device__ __forceinline__ void start(float (&d)[32]) const {
#pragma unroll
    for (int i = 0; i < 32; ++i) d[i] = i / 2 % 2 ? second : first;
  }
};

// The columns of a tile that a row sees. With kOfKeys (rows are keys, columns queries): columns from `diagonal` + row
// on. Otherwise: columns up to `diagonal` + row and before `end`. With kStarts and kOfKeys, a column must also have a
// start of at most `begins[0]` + row; with kStarts otherwise, it must be at or after the begin of its row, of which
// the thread has two.
struct TileMask {
  int diagonal, end;
  int begins[2];
  const uint8_t* starts;  // the columns' starts, ordered by place_of_row()
};

// Replaces s = q k^T - lse and dp = dy v^T - delta by p and ds.
template <bool kOfKeys, bool kStarts, bool kMasked>
__device__ __forceinline__ void weigh(float (&s)[32], float (&dp)[32], float slope, TileMask mask) {
  const int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  int4 starts{};
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    s[i] = approximate_power(s[i] * slope);
    if constexpr (kMasked) {
      if (kStarts && kOfKeys && i % 8 == 0)
        starts = reinterpret_cast<const int4*>(mask.starts)[threadIdx.x % 4 + i / 2];
      const int diagonal = mask.diagonal + row + i / 2 % 2 * 8, place = i / 4 * 8 + column + i % 2;
      bool seen = kOfKeys ? place >= diagonal : place <= diagonal && place < mask.end;
      if constexpr (kStarts && kOfKeys) {
        const int start = i % 8 < 4 ? (i % 2 ? starts.y : starts.x) : (i % 2 ? starts.w : starts.z);
        seen = seen && start <= mask.begins[0] + row + i / 2 % 2 * 8;
      } else if constexpr (kStarts) {
        seen = seen && place >= mask.begins[i / 2 % 2];
      }
      s[i] = seen ? s[i] : 0;
    }
    dp[i] *= s[i];
  }
}

// Rounds x from the accumulator layout to a left operand.
__device__ __forceinline__ void round_to(LeftRows& to, const float (&x)[32]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) to.of_depth[i / 4][i % 4] = pair_of<__nv_bfloat16>(x[2 * i], x[2 * i + 1]);
}

// Stores a warp's 16 rows of `d`, starting with row `first`, to memory through the warp's 2 KB of shared memory.
__device__ __forceinline__ void store_rows(const float (&d)[32], float scale, const HeadRows& to, int entry,
                                           int head, int first, int end, uint32_t staging) {
  const int lane = threadIdx.x % 32;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t blocks[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      blocks[j] = pair_of<__nv_bfloat16>(d[8 * i + 2 * j] * scale, d[8 * i + 2 * j + 1] * scale);
    stmatrix(staging + swizzle_128(lane % 16, 2 * i + lane / 16), blocks);
  }
  __syncwarp();
  __nv_bfloat16* rows = to.data + entry * to.batch + head * to.head;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = 4 * i + lane / 8;
    if (first + row < end)
      *reinterpret_cast<uint4*>(rows + (first + row) * to.row + lane % 8 * 8) =
          read_pack(staging + swizzle_128(row, lane % 8));
  }
}

// The columns of a tile that a warpgroup's 64 rows see; the rows start with `first`.
template <bool kOfKeys, bool kStarts>
struct VisibleColumns {
  const GradientSizes& s;
  int first;
  int least = 0,
      most = 0;  // kOfKeys: number of queries that see some row, and all; else: first and last row's start
  int begins[2] = {};  // the starts of the thread's two rows

  __device__ __forceinline__ VisibleColumns(const GradientSizes& sizes, const GradientItem& item, int half)
      : s(sizes), first(item.first + half * kGradientTileRows) {
    if constexpr (kStarts && kOfKeys) {
      const int tile = item.entry * s.key_tiles() + min(first / kGradientTileRows, s.key_tiles() - 1);
      least = s.seen_by[tile];
      most = s.seen_whole_by[tile];
    } else if constexpr (kStarts) {
      const int* starts = s.first_keys + item.entry * s.padded_queries();
      const int row = first + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
      least = starts[first];
      most = starts[place_of_row(max(first, min(first + kGradientTileRows, s.queries) - 1))];
      begins[0] = starts[place_of_row(row)];
      begins[1] = starts[place_of_row(row + 8)];
    }
  }

  __device__ __forceinline__ bool none(int column) const {
    if (kStarts && (kOfKeys ? column >= least : column + kGradientTileRows <= least)) return true;
    if (!s.causal) return false;
    return kOfKeys ? column + kGradientTileRows - 1 + s.shift() < first
                   : column > first + kGradientTileRows - 1 + s.shift();
  }
  __device__ __forceinline__ bool not_all(int column) const {
    if (kStarts && (kOfKeys ? column + kGradientTileRows > most : column < most)) return true;
    if (kOfKeys) return s.causal && column + s.shift() < first + kGradientTileRows - 1;
    return (s.causal && column + kGradientTileRows - 1 > first + s.shift()) ||
           column + kGradientTileRows > s.keys;
  }
  // Returns the TileMask of the tile in `stage`.
  __device__ __forceinline__ TileMask of(int column, const uint8_t* stage) const {
    if (kOfKeys)
      return {s.causal ? first - s.shift() - column : -kGradientTileRows,
              0,
              {first, first},
              stage + 2 * kBytesOfTile + kStatisticsBytes};
    return {s.causal ? first + s.shift() - column : s.keys,
            s.keys - column,
            {begins[0] - column, begins[1] - column},
            nullptr};
  }
};

// The registers of a warpgroup: its rows of the item, the current tile, and the sums.
template <bool kOfKeys, bool kStarts>
struct GradientRows {
  LeftRows left, left_of_dp;         // k and v, or q and dy
  RowStatistics row_lse, row_delta;  // only if the rows are queries
  float p[32], dp[32];
  LeftRows weights, ds;
  float sums[32] = {}, v_sums[32] = {};  // dk and dv, or dq

  __device__ __forceinline__ GradientRows(const GradientMemory& memory, int half)
      : row_lse(memory.item_statistics(half)), row_delta(memory.item_statistics(half) + kItemRows * 4) {
    const uint32_t mine = shared_address(memory.item()) + half * kBytesOfTile;
    left.load(mine);
    left_of_dp.load(mine + 2 * kBytesOfTile);
  }

  // The accumulators start with the values that are to be subtracted, so the subtraction costs nothing after the
  // products.
  __device__ __forceinline__ void start_tile(const uint8_t* stage) {
    if constexpr (kOfKeys) {
      start_with_columns(p, stage + 2 * kBytesOfTile);
      start_with_columns(dp, stage + 2 * kBytesOfTile + kGradientTileRows * 4);
    } else {
      row_lse.start(p);
      row_delta.start(dp);
    }
    pin(p);
    pin(dp);
  }

  __device__ __forceinline__ void multiply_sides(uint32_t stage) {
    add_rows_product(p, left, stage);
    add_rows_product(dp, left_of_dp, stage + kBytesOfTile);
    wgmma_commit_group();
  }

  // Must be followed by round(), once no product reads the registers that round() writes.
  __device__ __forceinline__ void weigh_products(float slope, bool masked, TileMask mask) {
    pin(p);
    pin(dp);
    masked ? weigh<kOfKeys, kStarts, true>(p, dp, slope, mask)
           : weigh<kOfKeys, kStarts, false>(p, dp, slope, mask);
    pin(p);
    pin(dp);
  }

  __device__ __forceinline__ void round() {
    if constexpr (kOfKeys) {
      round_to(weights, p);
      pin(weights);
    }
    round_to(ds, dp);
    pin(ds);
  }

  __device__ __forceinline__ void add_weighted(uint32_t stage) {
    if constexpr (kOfKeys) add_product(v_sums, weights, stage + kBytesOfTile);
    add_product(sums, ds, stage);
    wgmma_commit_group();
  }
};

// The work of one warpgroup.
template <bool kStarts>
struct GradientConsumer {
  const GradientSizes& s;
  GradientMemory memory;
  GradientBarriers& barriers;
  int half;  // half of an item's rows
  RingStage<kGradientStages> stage{};

  // The warpgroups take turns, one tile per turn: one issues the first products of a tile while the other weighs its
  // own. Without turns both would come to do the same at the same time, and the tensor cores would idle meanwhile.
  __device__ __forceinline__ void wait_for_turn() const { wait_for_threads(1 + half, 256); }
  __device__ __forceinline__ void pass_turn() const { arrive_at_threads(2 - half, 256); }

  // The tiles of an item, in the order of the ring.
  struct Tiles {
    const GradientItem& item;
    int heads;  // heads left
    int next = item.first_tile;
    int stage = 0, column = 0;  // stage and column of the tile taken last
  };

  // Takes the next tile of which the rows see something, once it is in the ring. Returns false after the last one. A
  // taken tile keeps its stage until the next one is taken, so a run of unseen tiles must not fill the ring: the last
  // tile that fits is taken as if it were seen, and its mask removes all of it.
  template <bool kOfKeys>
  __device__ __forceinline__ bool take_tile(Tiles& tiles, const VisibleColumns<kOfKeys, kStarts>& visible) {
    for (int unseen = 0;;) {
      if (tiles.next >= tiles.item.end_tile) {
        if (--tiles.heads <= 0) return false;
        tiles.next = tiles.item.first_tile;
      }
      tiles.stage = stage.index;
      tiles.column = tiles.next++ * kGradientTileRows;
      wait_for_phase(&barriers.filled[stage.index], stage.parity);
      stage.advance();
      if (!visible.none(tiles.column) || ++unseen == kGradientStages - 1) return true;
      wait_for_turn();
      pass_turn();
      arrive_as_warp(barriers.free[tiles.stage]);
    }
  }

  // The products of p and ds are issued together with the first products of the next tile, and run while the latter's
  // results are used. Only the branch of the mask lies in between, so that the compiler can see that none of the
  // products touches registers that another still reads. Otherwise it would wait for each product and say so (C7513).
  template <bool kOfKeys>
  __device__ __forceinline__ void add_tiles(GradientRows<kOfKeys, kStarts>& rows, Tiles& tiles,
                                            const VisibleColumns<kOfKeys, kStarts>& visible) {
    const float slope = s.scale * kLog2E;
    const auto stage_at = [&](int stage) { return shared_address(memory.stage(stage)); };
    if (!take_tile(tiles, visible)) return;
    rows.start_tile(memory.stage(tiles.stage));
    wait_for_turn();
    wgmma_fence();
    rows.multiply_sides(stage_at(tiles.stage));
    wgmma_wait_group<0>();
    pass_turn();
    rows.weigh_products(slope, true, visible.of(tiles.column, memory.stage(tiles.stage)));
    rows.round();
    int before = tiles.stage;
#pragma unroll 1
    while (take_tile(tiles, visible)) {
      rows.start_tile(memory.stage(tiles.stage));
      wait_for_turn();
      wgmma_fence();
      rows.multiply_sides(stage_at(tiles.stage));
      rows.add_weighted(stage_at(before));
      wgmma_wait_group<1>();
      pass_turn();
      rows.weigh_products(slope, visible.not_all(tiles.column),
                          visible.of(tiles.column, memory.stage(tiles.stage)));
      wgmma_wait_group<0>();
      arrive_as_warp(barriers.free[before]);
      before = tiles.stage;
      rows.round();
    }
    wgmma_fence();
    rows.add_weighted(stage_at(before));
    wgmma_wait_group<0>();
    pin(rows.sums);
    pin(rows.v_sums);
    arrive_as_warp(barriers.free[before]);
  }

  template <bool kOfKeys>
  __device__ __forceinline__ void run(const GradientItem& item) {
    GradientRows<kOfKeys, kStarts> rows(memory, half);
    arrive_as_warp(barriers.item_free);
    const bool has_tiles = !kStarts || item.first_tile < item.end_tile;
    Tiles tiles{item, kOfKeys && has_tiles ? s.group() : 1};
    const VisibleColumns<kOfKeys, kStarts> visible(s, item, half);
    add_tiles(rows, tiles, visible);

    const int warp = threadIdx.x / 32 % 4, row = visible.first + warp * 16;
    const uint32_t staging = shared_address(memory.staging(half * 4 + warp));
    store_rows(rows.sums, s.scale, kOfKeys ? s.dk : s.dq, item.entry, item.head, row,
               kOfKeys ? s.keys : s.queries, staging);
    if constexpr (kOfKeys) store_rows(rows.v_sums, 1, s.dv, item.entry, item.head, row, s.keys, staging);
  }

  __device__ __forceinline__ void run_all() {
    if (half == 1) pass_turn();
    for (uint32_t parity = 0;; parity ^= 1) {
      wait_for_phase(&barriers.item_filled, parity);
      const int i = barriers.item;
      if (i >= s.items()) return;
      const GradientItem item = item_at<kStarts>(i, s);
      item.of_keys ? run<true>(item) : run<false>(item);
    }
  }
};

#endif

template <bool kStarts>
__global__ __launch_bounds__(kGradientThreads,
                             1) void attention_gradient_kernel(const __grid_constant__ GradientMaps maps,
                                                               const __grid_constant__ GradientSizes sizes) {
#ifdef GENESIS_HOPPER
  extern __shared__ uint8_t memory[];
  __shared__ GradientBarriers barriers;
  const uint32_t odd = shared_address(memory) % 1024;
  const GradientMemory places{memory + (odd ? 1024 - odd : 0)};
  if (threadIdx.x == 0) init(barriers);
  __syncthreads();
  begin_in_order();
  const int group = threadIdx.x / 128;
  if (group > 0) {
    setmaxnreg_inc<232>();
    GradientConsumer<kStarts>{sizes, places, barriers, group - 1}.run_all();
  } else {
    setmaxnreg_dec<40>();
    if (threadIdx.x == 0) GradientProducer<kStarts>{maps, sizes, places, barriers}.run();
  }
#endif
}

}  // namespace genesis::cuda::hopper
