// Products of groups of rows in bf16 on Hopper chips, in the tiles and with the pipeline of hopper_gemm.h: one producer thread, two
// consumer warpgroups, three warps that write finished tiles. Which tiles there are follows from offsets on the device. A block has
// fewer threads than there: the widest product needs more than the 128 registers that each of 512 threads could have.
//
// `Problem` is a type with
//
//   kSumsRowsOfA, kRowsOfB   how the operands are stored (see multiply_wide())
//   kRing                    stages of the ring, three or four
//   kRagged                  the depth of a tile may end within a slice, whose rest belongs to another group
//   count(), at(i)           the number of tiles, and tile i
//   copy(...)                starts the copies of a slice of both operands, 64 deep
//   line(tile)               the first row of the result that belongs to the tile's group
#pragma once

#include "backends/cuda/hopper/grouped/wide_product.h"
#include "backends/cuda/hopper/hopper_gemm.h"

namespace genesis::cuda::hopper {

// A tile of the result: rows [row, end), at most kTileRows of them count, from `column` on. `first` is where the rows that are
// summed over begin.
struct GroupTile {
  int group = 0, row = 0, end = 0, column = 0, first = 0, depth = 0;
};

// Tiles of rows, as the kernel before lists them: their number, then each tile's group and rows.
struct RowTiles {
  const int* count = nullptr;
  const int4* tiles = nullptr;  // group, row, end
};

constexpr int kGroupedThreads = 384, kWriters = 3;

constexpr int kHalfBytes = kTileBytes / 2;

// The shared memory of a block: the stages of the ring, then the finished tile, whose halves lie behind each other or, with four
// stages, take turns in one place. Long sums gain more from the fourth stage, which hides the latency of the L2 cache; with short
// ones tiles are finished so often that the halves would wait for each other.
template <int kRing>
struct GroupedMemory {
  static constexpr bool kInTurns = kRing > kStages;
  static constexpr size_t kBytes = kAlignment + kRing * kStageBytes + (kInTurns ? kHalfBytes : kTileBytes);

  __device__ static uint32_t half_tile(uint32_t ring, int half) {
    return ring + kRing * kStageBytes + (kInTurns ? 0 : half * kHalfBytes);
  }
};
constexpr int64_t kLongSum = 1024;

struct GroupSizes {
  int columns = 0, depth = 0, column_tiles = 0;
};

// y = x weights[g]^T, or x weights[g] with `kRows`: the weights of a group are [depth, columns].
template <bool kRows, int kStagesOfRing>
struct RowsOfGroups {
  static constexpr int kRing = kStagesOfRing;
  static constexpr bool kSumsRowsOfA = false, kRowsOfB = kRows, kRagged = false;
  GroupSizes sizes;
  RowTiles list;

#ifdef GENESIS_HOPPER
  __device__ int count() const { return *list.count * sizes.column_tiles; }
  __device__ GroupTile at(int i) const {
    const int4 rows = list.tiles[i / sizes.column_tiles];
    return {rows.x, rows.y, rows.z, i % sizes.column_tiles * kTileColumns, 0, sizes.depth};
  }
  __device__ void copy(uint32_t to, const CUtensorMap* a, const CUtensorMap* b, uint32_t barrier,
                       const GroupTile& tile, int depth) const {
    copy_box(to, a, barrier, depth, tile.row);
    if constexpr (kRows) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        copy_rows(to + kBytesOfA + i * kDepth * 128, b, barrier, depth, tile.group, 0, tile.column + i * 64);
    } else {
      copy_rows(to + kBytesOfA, b, barrier, tile.column, tile.group, 0, depth);
    }
  }
  __device__ int64_t line(const GroupTile&) const { return 0; }
#endif
};

// y[g] = a^T b over the rows of each group: [groups, lines, columns].
struct SumsOfGroups {
  static constexpr int kRing = 3;
  static constexpr bool kSumsRowsOfA = true, kRowsOfB = true, kRagged = true;
  GroupSizes sizes;  // depth: of no use
  const int64_t* offsets = nullptr;
  int groups = 0, rows = 0, lines = 0, line_tiles = 0;

#ifdef GENESIS_HOPPER
  __device__ int count() const { return groups * line_tiles * sizes.column_tiles; }
  __device__ GroupTile at(int i) const {
    const int column = i % sizes.column_tiles * kTileColumns, line_tile = i / sizes.column_tiles;
    const int group = line_tile / line_tiles, row = line_tile % line_tiles * kTileRows;
    const auto cut = [&](int64_t at) { return static_cast<int>(min(max(at, int64_t{0}), int64_t{rows})); };
    const int first = cut(offsets[group]), end = max(first, cut(offsets[group + 1]));
    return {group, row, lines, column, first, end - first};
  }
  __device__ void copy(uint32_t to, const CUtensorMap* a, const CUtensorMap* b, uint32_t barrier,
                       const GroupTile& tile, int depth) const {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      copy_box(to + i * kDepth * 128, a, barrier, tile.row + i * 64, tile.first + depth);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      copy_box(to + kBytesOfA + i * kDepth * 128, b, barrier, tile.column + i * 64, tile.first + depth);
  }
  __device__ int64_t line(const GroupTile& tile) const { return int64_t{tile.group} * lines; }
#endif
};

#ifdef GENESIS_HOPPER

template <int kRing>
struct GroupBarriers {
  uint64_t filled[kRing], free[kRing];  // the ring's stages
  uint64_t finished[2], taken[2];       // halves of the tile
};

template <int kRing>
__device__ __forceinline__ void init(GroupBarriers<kRing>& barriers) {
  for (int i = 0; i < kRing; ++i) {
    init_barrier(&barriers.filled[i], 1);
    init_barrier(&barriers.free[i], 8);  // consumer warps
  }
  for (int i = 0; i < 2; ++i) {
    init_barrier(&barriers.finished[i], 4);
    init_barrier(&barriers.taken[i], kWriters);
  }
  let_copies_see_barriers();
}

// Runs in one thread.
template <class Problem>
__device__ void produce_slices(const Problem& problem, const CUtensorMap* a, const CUtensorMap* b,
                               uint32_t ring, GroupBarriers<Problem::kRing>& barriers) {
  RingStage<Problem::kRing> stage{0, 1};
  for (int i = blockIdx.x, count = problem.count(); i < count; i += gridDim.x) {
    const GroupTile tile = problem.at(i);
    for (int depth = 0; depth < tile.depth; depth += kDepth) {
      const uint32_t start = ring + stage.index * kStageBytes;
      wait_for_phase(&barriers.free[stage.index], stage.parity);
      expect_bytes(&barriers.filled[stage.index], kStageBytes);
      problem.copy(start, a, b, shared_address(&barriers.filled[stage.index]), tile, depth);
      stage.advance();
    }
  }
}

// Sets rows [from, kDepth) of `boxes` adjacent boxes of 64 columns to zero. Runs in a warpgroup.
__device__ __forceinline__ void clear_rows(uint32_t box, int boxes, int from) {
  const int packs = (kDepth - from) * 8;
  for (int i = threadIdx.x % 128; i < boxes * packs; i += 128)
    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(box + i / packs * (kDepth * 128) +
                                                                  from * 128 + i % packs * 16),
                 "r"(0)
                 : "memory");
}

// Removes the rows of a slice that belong to the next group. Both consumer warpgroups call it, and each clears the half of the
// slice that has its number.
__device__ __forceinline__ void cut_slice(uint32_t start, int half, int depth) {
  clear_rows(start + half * (kBytesOfA / 2), 1, depth);
  clear_rows(start + kBytesOfA + half * (kBytesOfB / 2), 2, depth);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync 1, 256;" ::: "memory");
}

template <class Problem>
__device__ __forceinline__ void multiply_group_slice(float (&d)[128], uint32_t a, uint32_t b,
                                                     bool accumulate) {
  constexpr uint32_t kEightRows = 8 * 128, kBox = kDepth * 128;
  const auto part = [](uint32_t at, bool sums_rows, int i) {
    return sums_rows ? describe(at + i * 2 * kEightRows, kEightRows, kBox)
                     : describe(at + i * 32, kEightRows);
  };
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < kDepth / 16; ++i)
    multiply_wide<Problem::kSumsRowsOfA, Problem::kRowsOfB>(
        d, part(a, Problem::kSumsRowsOfA, i), part(b, Problem::kRowsOfB, i), accumulate || i > 0);
  wgmma_commit_group();
}

// Stores a warpgroup's half of a tile, rounded, to shared memory: four chunks of 64 columns, 64 rows of 128 bytes each.
__device__ __forceinline__ void put_half(uint32_t to, const float (&d)[128]) {
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
  for (int at = 0; at < 128; at += 8) {
    const uint32_t blocks[4] = {
        pair_of<__nv_bfloat16>(d[at], d[at + 1]), pair_of<__nv_bfloat16>(d[at + 2], d[at + 3]),
        pair_of<__nv_bfloat16>(d[at + 4], d[at + 5]), pair_of<__nv_bfloat16>(d[at + 6], d[at + 7])};
    stmatrix(to + at / 32 * (kChunkBytes / 2) + swizzle_128(row, at % 32 / 4 + lane / 16), blocks);
  }
}

// Runs in a warpgroup; `half` is 0 or 1. A half without rows only keeps step with the other one.
template <class Problem>
__device__ __forceinline__ void multiply_group_tiles(const Problem& problem, int half, uint32_t ring,
                                                     GroupBarriers<Problem::kRing>& barriers) {
  float d[128];
  RingStage<Problem::kRing> stage;
  using Memory = GroupedMemory<Problem::kRing>;
  // In turns, the first half waits for the second one of the tile before.
  uint32_t parity = Memory::kInTurns ? 1 - half : 1;
  for (int i = blockIdx.x, count = problem.count(); i < count; i += gridDim.x) {
    const GroupTile tile = problem.at(i);
    const bool has_rows = tile.row + half * 64 < tile.end;
    int before = -1;
    for (int depth = 0; depth < tile.depth; depth += kDepth) {
      const uint32_t start = ring + stage.index * kStageBytes;
      wait_for_phase(&barriers.filled[stage.index], stage.parity);
      if (Problem::kRagged && tile.depth - depth < kDepth) cut_slice(start, half, tile.depth - depth);
      if (has_rows)
        multiply_group_slice<Problem>(d, start + half * (kBytesOfA / 2), start + kBytesOfA, depth > 0);
      if (before >= 0) {
        wgmma_wait_group<1>();
        arrive_as_warp(barriers.free[before]);
      }
      before = stage.index;
      stage.advance();
    }
    wgmma_wait_group<0>();
    pin(d);
    if (before >= 0) arrive_as_warp(barriers.free[before]);
    if (Problem::kRagged && tile.depth == 0)
#pragma unroll
      for (float& sum : d) sum = 0;
    wait_for_phase(&barriers.taken[Memory::kInTurns ? 1 - half : half], parity);
    if (has_rows) put_half(Memory::half_tile(ring, half), d);
    arrive_as_warp(barriers.finished[half]);
    parity ^= 1;
  }
}

// Writes finished tiles to memory. Runs in warp `warp`, 0 to 2, which takes each third row.
template <class Problem>
__device__ __forceinline__ void write_group_tiles(const Problem& problem, int warp, __nv_bfloat16* y,
                                                  uint32_t ring, GroupBarriers<Problem::kRing>& barriers) {
  const int lane = threadIdx.x % 32;
  uint32_t parity = 0;
  for (int i = blockIdx.x, count = problem.count(); i < count; i += gridDim.x) {
    const GroupTile tile = problem.at(i);
    const int column = tile.column + lane * 8, columns = problem.sizes.columns;
    __nv_bfloat16* to = y + (problem.line(tile) + tile.row) * columns + column;
    const int rows = column < columns ? min(tile.end - tile.row, kTileRows) : 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t half_tile = GroupedMemory<Problem::kRing>::half_tile(ring, half);
      wait_for_phase(&barriers.finished[half], parity);
#pragma unroll 5
      for (int row = half * 64 + warp; row < half * 64 + 64; row += kWriters)
        if (row < rows)
          *reinterpret_cast<uint4*>(to + int64_t{row} * columns) =
              read_pack(half_tile + lane / 8 * (kChunkBytes / 2) + swizzle_128(row % 64, lane % 8));
      arrive_as_warp(barriers.taken[half]);
    }
    parity ^= 1;
  }
}

#endif

template <class Problem>
__global__ __launch_bounds__(kGroupedThreads, 1) void grouped_kernel(const __grid_constant__ CUtensorMap a,
                                                                     const __grid_constant__ CUtensorMap b,
                                                                     Problem problem, __nv_bfloat16* y) {
#ifdef GENESIS_HOPPER
  extern __shared__ uint8_t memory[];
  __shared__ GroupBarriers<Problem::kRing> barriers;
  const uint32_t ring = (shared_address(memory) + kAlignment - 1) / kAlignment * kAlignment;
  if (threadIdx.x == 0) init(barriers);
  __syncthreads();
  begin_in_order();
  const int warp = threadIdx.x / 32, group = warp / 4;
  if (group > 0) {
    setmaxnreg_inc<208>();
    multiply_group_tiles(problem, group - 1, ring, barriers);
  } else {
    setmaxnreg_dec<88>();
    if (threadIdx.x == 0) produce_slices(problem, &a, &b, ring, barriers);
    if (warp > 0) write_group_tiles(problem, warp - 1, y, ring, barriers);
  }
#endif
}

}  // namespace genesis::cuda::hopper
