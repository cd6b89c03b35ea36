// A skinny GEMM whose weights wait in shared memory: up to 32 rows of x against weights [n, k] in bf16, on Hopper
// chips. A block has kTiles tiles of 16 rows of the weights, with all of k or, in a cluster, a range of it; each of
// its eight warps has a slice of that. TMA copies bring the slice of the weights before x is ready, and then the
// slice of x, so a warp waits only for its own boxes, and x is all that is read after the kernel ahead. Slices are
// counted in depths of 16, one product of the tensor cores. In shared memory they are boxes of an odd number of
// depths, 32 bytes each, so that no two of four rows use the same bank.
#pragma once

#include <cuda.h>

#include "backends/cuda/gemm/few_rows/skinny_gemm_sums.h"
#include "backends/cuda/hopper/hopper.h"
#include "backends/cuda/hopper/skinny/row_norm.h"

namespace genesis::cuda::skinny_resident {

using Bf16 = __nv_bfloat16;
using skinny_gemm::BlockRows;

constexpr int kTile = 16, kDepth = 16, kDepthBytes = kDepth * 2;
constexpr int kBoxAlignment = 128;

template <int kTiles, int kColumns>
struct Sizes {
  static constexpr int kWarps = 8, kAll = kWarps * kLanes;
  static constexpr int kEights = kColumns;                   // groups of eight rows of x
  static constexpr int kSums = kTiles * kColumns * kLanes;  // accumulators of four numbers, one per lane
};

// The split of k. A warp's memory holds a box of weights (two for a swiglu, gate's and up's), one of x, and with a
// norm its slice of the norm's weight.
struct SliceSizes {
  int depths;      // depths of all of k
  int box_depths;  // depths of a box, enough for the longest slice
  int weight_bytes, warp_bytes;  // bytes of one weight's box, rounded up to the next box; all bytes of a warp

  __host__ __device__ int row_bytes() const { return box_depths * kDepthBytes; }
};

struct Maps {
  CUtensorMap weight[RowProducts::kMaxLayers], x;
};

struct Arguments {
  RowProducts products;
  RowSplit split;
  SliceSizes slices;
  int parts;  // blocks of a cluster, which share k
};

#ifdef GENESIS_HOPPER

// The slice of k of one warp, in its own region of shared memory.
template <int kTiles, int kColumns, bool kSwiglu>
struct WarpSlice {
  static constexpr int kRows = kTiles * kTile;
  static constexpr int kBoxRows = kSwiglu ? kRows / 2 : kRows;  // rows of the weights

  const SliceSizes& sizes;
  unsigned char* memory;
  uint64_t *weights_there, *x_there;
  int first, count;  // depths

  __device__ __forceinline__ WarpSlice(const SliceSizes& s, unsigned char* shared, uint64_t (&barriers)[2][8],
                                       int rank, int parts)
      : sizes(s) {
    const int warp = static_cast<int>(threadIdx.x) / kLanes, slices = 8 * parts, slice = rank * 8 + warp;
    memory = shared + warp * s.warp_bytes;
    weights_there = &barriers[0][warp];
    x_there = &barriers[1][warp];
    first = slice * s.depths / slices;
    count = (slice + 1) * s.depths / slices - first;
  }

  // One lane of the warp initializes the barriers and starts the copies.
  __device__ __forceinline__ void make_barriers(const Maps& maps) const {
    if (asks()) {
      init_barrier(weights_there, 1);
      init_barrier(x_there, 1);
      let_copies_see_barriers();
      hopper::prefetch_map(&maps.x);
    }
    __syncwarp();
  }
  __device__ __forceinline__ void wait() const {
    wait_for_phase(weights_there, 0);
    wait_for_phase(x_there, 0);
  }

  __device__ __forceinline__ unsigned char* x() const { return memory + (kSwiglu ? 2 : 1) * sizes.weight_bytes; }
  __device__ __forceinline__ unsigned char* gains() const { return x() + 8 * kColumns * sizes.row_bytes(); }

  // Elements outside of a matrix arrive as zeros.
  __device__ __forceinline__ void ask_weights(const Maps& maps, const BlockRows& rows) const {
    if (!asks()) return;
    const auto row = static_cast<int>(rows.first), column = first * kDepth;
    expect_bytes(weights_there, kRows * sizes.row_bytes());
    hopper::copy_box(shared_address(memory), &maps.weight[rows.layer], shared_address(weights_there), column, row);
    if constexpr (kSwiglu)
      hopper::copy_box(shared_address(memory + sizes.weight_bytes), &maps.weight[1],
                       shared_address(weights_there), column, row);
  }
  __device__ __forceinline__ void ask_x(const Maps& maps) const {
    if (!asks()) return;
    expect_bytes(x_there, 8 * kColumns * sizes.row_bytes());
    hopper::copy_box(shared_address(x()), &maps.x, shared_address(x_there), first * kDepth, 0);
  }

  // Reads the norm's weight with the whole warp; elements past its end are zeros.
  __device__ __forceinline__ void read_gains(const RowProducts& p) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    for (int i = lane; i < 2 * count; i += kLanes) {
      const int pack = 2 * first + i;
      reinterpret_cast<Words*>(gains())[i] = pack < p.k / 8 ? static_cast<const Words*>(p.norm)[pack] : Words{};
    }
    __syncwarp();
  }

  // Lane 4 * g + t has four elements of rows g and g + 8 of a tile, and of row g of each eight rows of x.
  template <class Norm>
  __device__ __forceinline__ void multiply(Norm& norm, float (&sums)[kTiles][kColumns][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes, row_bytes = sizes.row_bytes();
    const int own = lane / 4 * row_bytes + lane % 4 * 8;
    const unsigned char *low = memory + own, *of_x = x() + own, *gain = gains() + lane % 4 * 8;
    const int high = kSwiglu ? sizes.weight_bytes : 8 * row_bytes, tile_step = kBoxRows / kTiles * row_bytes;
#pragma unroll 2
    for (int d = 0; d < count; ++d) {
      uint2 xs[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        xs[c] = *reinterpret_cast<const uint2*>(of_x + 8 * c * row_bytes + d * kDepthBytes);
      norm.take(xs, gain + d * kDepthBytes);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const unsigned char* at = low + tile * tile_step + d * kDepthBytes;
        const uint2 lows = *reinterpret_cast<const uint2*>(at), highs = *reinterpret_cast<const uint2*>(at + high);
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
          multiply_16x8<Bf16>(sums[tile][c], lows.x, highs.x, lows.y, highs.y, xs[c].x, xs[c].y);
      }
    }
  }

 private:
  __device__ __forceinline__ bool asks() const { return threadIdx.x % kLanes == 0; }
};

#endif

}  // namespace genesis::cuda::skinny_resident
