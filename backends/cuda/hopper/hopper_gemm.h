// A persistent, warp-specialized GEMM in bf16 for Hopper chips with a fused epilogue: C = A B in tiles of 128 x 256,
// with one block per multiprocessor that takes tile after tile.
//
// One producer thread fills a ring of three stages, slices of A and B, by TMA copies. Two consumer warpgroups
// multiply with wgmma, 64 rows each; they round a finished tile, store it to shared memory and start the next one.
// Seven epilogue warps read the tile from there and compute the epilogue while the next tile is multiplied, so the
// epilogue costs no tensor core time as long as it takes no longer than the tile's product. `Epilogue` is a type with
//
//   kRowsOfB      B is stored [k, n], else [n, k]
//   kColumns      the epilogue's own columns per tile
//   copy_b(...)   starts the copy of a slice of B, 64 deep
//   is_wanted()   false: the kernel does nothing
//   Work          the work of an epilogue warp: begin(tile) before the first tile, unit(...) kUnits times per tile
//
// For chips without these instructions the kernel is empty; has_hopper_code() tells whether it is.
#pragma once

#include <cuda_bf16.h>

#include "backends/cuda/hopper/hopper.h"
#include "backends/cuda/hopper/tensor_map.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda::hopper {

constexpr int kTileRows = 128, kTileColumns = 256, kDepth = 64, kStages = 3;
constexpr int kBytesOfA = kTileRows * kDepth * 2, kBytesOfB = kTileColumns * kDepth * 2,
              kStageBytes = kBytesOfA + kBytesOfB;
// A finished tile: four chunks of 64 columns, 128 rows of 128 bytes each.
constexpr int kChunkBytes = kTileRows * 128, kTileBytes = 4 * kChunkBytes;
constexpr int kBlockThreads = 512, kEpilogueWarps = 7;
constexpr int kUnits = 5;   // units of an epilogue warp's work on a tile
constexpr int kMiddle = 2;  // the unit that needs rows of both halves
constexpr int kAlignment = 1024;
constexpr size_t kSharedBytes = kAlignment + kStages * kStageBytes + kTileBytes;

// The tiles of C, in an order in which concurrent tiles share slices in the L2 cache.
struct TileOrder {
  static constexpr int kGroup = 16;  // row tiles
  int row_tiles = 0, column_tiles = 0;

  __host__ __device__ int count() const { return row_tiles * column_tiles; }
};

struct Tile {
  int row = 0, column = 0;  // its first row and column
};

struct ProductSizes {
  int rows = 0, columns = 0, depth = 0;  // columns: as the Epilogue counts them
  TileOrder order;
};

template <class Epilogue>
ProductSizes sizes_of_product(int64_t rows, int64_t columns, int64_t depth) {
  return {static_cast<int>(rows),
          static_cast<int>(columns),
          static_cast<int>(depth),
          {static_cast<int>(blocks_for(rows, kTileRows)),
           static_cast<int>(blocks_for(columns, Epilogue::kColumns))}};
}

#ifdef GENESIS_HOPPER

// Returns tile i; after the last one, a tile without rows.
template <class Epilogue>
__device__ __forceinline__ Tile tile_at(int i, const ProductSizes& sizes) {
  const TileOrder& order = sizes.order;
  if (i >= order.count()) return {sizes.rows, 0};
  const int per_group = TileOrder::kGroup * order.column_tiles, first = i / per_group * TileOrder::kGroup;
  const int rows = min(TileOrder::kGroup, order.row_tiles - first), in_group = i % per_group;
  return {(first + in_group % rows) * kTileRows, in_group / rows * Epilogue::kColumns};
}

struct Barriers {
  uint64_t filled[kStages], free[kStages];  // the ring's stages
  uint64_t finished[2], taken[2];           // halves of the tile in shared memory
};

__device__ __forceinline__ void init(Barriers& barriers, int epilogue_warps = kEpilogueWarps) {
  for (int i = 0; i < kStages; ++i) {
    init_barrier(&barriers.filled[i], 1);
    init_barrier(&barriers.free[i], 8);  // consumer warps
  }
  for (int i = 0; i < 2; ++i) {
    init_barrier(&barriers.finished[i], 4);
    init_barrier(&barriers.taken[i], static_cast<uint32_t>(epilogue_warps));
  }
  let_copies_see_barriers();
}

// Runs in one thread.
template <class Epilogue>
__device__ void run_producer(const CUtensorMap* a, const CUtensorMap* b, const ProductSizes& sizes,
                             uint32_t ring, Barriers& barriers) {
  RingStage<kStages> stage{0, 1};
  for (int i = blockIdx.x; i < sizes.order.count(); i += gridDim.x) {
    const Tile tile = tile_at<Epilogue>(i, sizes);
    for (int depth = 0; depth < sizes.depth; depth += kDepth) {
      const uint32_t start = ring + stage.index * kStageBytes,
                     filled = shared_address(&barriers.filled[stage.index]);
      wait_for_phase(&barriers.free[stage.index], stage.parity);
      expect_bytes(&barriers.filled[stage.index], kStageBytes);
      copy_box(start, a, filled, depth, tile.row);
      Epilogue::copy_b(start + kBytesOfA, b, filled, tile.column, depth, sizes);
      stage.advance();
    }
  }
}

// Computes d += (64 rows of a slice of A) (a slice of B), or d = the product without `accumulate`.
template <class Epilogue>
__device__ __forceinline__ void multiply_slice(float (&d)[128], uint32_t a, uint32_t b, bool accumulate) {
  constexpr uint32_t kGroup = 8 * 128;  // bytes of eight rows
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < kDepth / 16; ++i) {
    const auto of_b = [&](uint32_t half) {
      return Epilogue::kRowsOfB ? describe(half + i * 2 * kGroup, kGroup, kDepth * 128)
                                : describe(half + i * 32, kGroup);
    };
    const uint64_t of_a = describe(a + i * 32, kGroup);
    multiply<Epilogue::kRowsOfB, 0>(d, of_a, of_b(b), accumulate || i > 0);
    multiply<Epilogue::kRowsOfB, 64>(d, of_a, of_b(b + kBytesOfB / 2), accumulate || i > 0);
  }
  wgmma_commit_group();
}

// Stores a warpgroup's half of a tile, rounded, to shared memory.
__device__ __forceinline__ void put_down(uint32_t tile, int half, const float (&d)[128]) {
  const int lane = threadIdx.x % 32, row = half * 64 + threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
  for (int chunk = 0; chunk < 4; ++chunk)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t blocks[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int at = 32 * chunk + 8 * i + 2 * j;
        blocks[j] = pair_of<__nv_bfloat16>(d[at], d[at + 1]);
      }
      stmatrix(tile + chunk * kChunkBytes + swizzle_128(row, 2 * i + lane / 16), blocks);
    }
}

// Runs in a warpgroup; `half` is 0 or 1.
template <class Epilogue>
__device__ __forceinline__ void multiply_tiles(int half, const ProductSizes& sizes, uint32_t ring,
                                               uint32_t tile, Barriers& barriers) {
  float d[128];
  RingStage<kStages> stage;
  uint32_t parity = 1;
  for (int i = blockIdx.x; i < sizes.order.count(); i += gridDim.x) {
    int before = 0;
    for (int depth = 0; depth < sizes.depth; depth += kDepth) {
      const uint32_t start = ring + stage.index * kStageBytes;
      wait_for_phase(&barriers.filled[stage.index], stage.parity);
      multiply_slice<Epilogue>(d, start + half * (kBytesOfA / 2), start + kBytesOfA, depth > 0);
      if (depth > 0) {
        wgmma_wait_group<1>();
        arrive_as_warp(barriers.free[before]);
      }
      before = stage.index;
      stage.advance();
    }
    wgmma_wait_group<0>();
    pin(d);
    arrive_as_warp(barriers.free[before]);
    wait_for_phase(&barriers.taken[half], parity);
    put_down(tile, half, d);
    arrive_as_warp(barriers.finished[half]);
    parity ^= 1;
  }
}

// Runs in epilogue warp `epilogue_warp`, 0 to 6.
template <class Epilogue>
__device__ __forceinline__ void run_epilogue(const Epilogue& epilogue, int epilogue_warp,
                                             const ProductSizes& sizes, uint32_t shared, Barriers& barriers) {
  typename Epilogue::Work work{epilogue, sizes, shared, epilogue_warp};
  Tile tile = tile_at<Epilogue>(blockIdx.x, sizes);
  work.begin(tile);
  uint32_t parity = 0;
  for (int i = blockIdx.x; i < sizes.order.count(); i += gridDim.x) {
    const Tile next = tile_at<Epilogue>(i + gridDim.x, sizes);
#pragma unroll 1
    for (int unit = 0; unit < kUnits; ++unit) {
      if (unit == 0) wait_for_phase(&barriers.finished[0], parity);
      if (unit == kMiddle) wait_for_phase(&barriers.finished[1], parity);
      work.unit(unit, tile, next);
      if (unit == kMiddle) arrive_as_warp(barriers.taken[0]);
    }
    arrive_as_warp(barriers.taken[1]);
    tile = next;
    parity ^= 1;
  }
}

#endif

template <class Epilogue>
__global__ __launch_bounds__(kBlockThreads, 1) void product_kernel(const __grid_constant__ CUtensorMap a,
                                                                   const __grid_constant__ CUtensorMap b,
                                                                   ProductSizes sizes, Epilogue epilogue) {
#ifdef GENESIS_HOPPER
  extern __shared__ uint8_t memory[];
  __shared__ Barriers barriers;
  const uint32_t ring = (shared_address(memory) + kAlignment - 1) / kAlignment * kAlignment,
                 tile = ring + kStages * kStageBytes;
  if (threadIdx.x == 0) init(barriers);
  __syncthreads();
  begin_in_order();
  if (!epilogue.is_wanted()) return;
  const int warp = threadIdx.x / 32, group = warp / 4;
  if (group == 1 || group == 2) {
    setmaxnreg_inc<168>();
    multiply_tiles<Epilogue>(group - 1, sizes, ring, tile, barriers);
  } else {
    setmaxnreg_dec<88>();
    if (threadIdx.x == 0) run_producer<Epilogue>(&a, &b, sizes, ring, barriers);
    if (warp > 0) run_epilogue(epilogue, warp < 4 ? warp - 1 : warp - 9, sizes, tile, barriers);
  }
#endif
}

template <class Epilogue>
bool has_hopper_code() {
  return has_hopper_kernel(reinterpret_cast<const void*>(product_kernel<Epilogue>), kSharedBytes);
}

template <class Epilogue>
void start_product(const Launch& launch, const CUtensorMap& a, const CUtensorMap& b,
                   const ProductSizes& sizes, const Epilogue& epilogue) {
  const int blocks = std::min(launch.multiprocessors, sizes.order.count());
  start_with_pdl(launch, product_kernel<Epilogue>, static_cast<unsigned>(blocks), kBlockThreads, kSharedBytes,
                 a, b, sizes, epilogue);
}

}  // namespace genesis::cuda::hopper
