// The SwiGLU epilogues of hopper_gemm.h, in bf16. Forward: writes a tile of the gate/up product, and its silu(gate) *
// up. Backward: combines a tile of dy with the stored gate and up, and writes the gradients of both.
#pragma once

#include "backends/cuda/device/swiglu_formula.h"
#include "backends/cuda/hopper/hopper_gemm.h"

namespace genesis::cuda::hopper {

using Bf16 = __nv_bfloat16;

#ifdef GENESIS_HOPPER

// Loads data that is read only once, without keeping it in the L1 cache.
__device__ __forceinline__ uint4 read_once(const Bf16* from) {
  uint4 pack;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(pack.x), "=r"(pack.y), "=r"(pack.z), "=r"(pack.w)
               : "l"(from));
  return pack;
}
__device__ __forceinline__ void write(Bf16* to, const uint4& pack) { *reinterpret_cast<uint4*>(to) = pack; }

__device__ __forceinline__ uint32_t gated_pair(uint32_t gate, uint32_t up) {
  return pair_of<Bf16>(gated<Bf16>(low_of<Bf16>(gate), low_of<Bf16>(up)),
                       gated<Bf16>(high_of<Bf16>(gate), high_of<Bf16>(up)));
}

// Replaces gate and up by their gradients, and dy by the output.
__device__ __forceinline__ void differentiate_pair(uint32_t& gate, uint32_t& up, uint32_t& dy) {
  const auto first = gated_gradient<Bf16>(low_of<Bf16>(gate), low_of<Bf16>(up), low_of<Bf16>(dy));
  const auto second = gated_gradient<Bf16>(high_of<Bf16>(gate), high_of<Bf16>(up), high_of<Bf16>(dy));
  gate = pair_of<Bf16>(first.dgate, second.dgate);
  up = pair_of<Bf16>(first.dup, second.dup);
  dy = pair_of<Bf16>(first.y, second.y);
}

#endif

// Computes x weight^T, with 128 columns of gate and the corresponding 128 columns of up in one tile. Every epilogue
// warp takes each seventh pair of rows, half a warp per row.
struct SwigluEpilogue {
  static constexpr bool kRowsOfB = false;
  static constexpr int kColumns = kTileColumns / 2;
  Bf16 *gate_and_up = nullptr, *y = nullptr;

#ifdef GENESIS_HOPPER
  __device__ static bool is_wanted() { return true; }

  __device__ static void copy_b(uint32_t to, const CUtensorMap* map, uint32_t barrier, int column, int depth,
                                const ProductSizes& sizes) {
    copy_box(to, map, barrier, depth, column);
    copy_box(to + kBytesOfB / 2, map, barrier, depth, sizes.columns + column);
  }

  struct Work {
    const SwigluEpilogue& epilogue;
    const ProductSizes& sizes;
    uint32_t shared;
    int epilogue_warp;

    __device__ void begin(const Tile&) {}

    __device__ void unit(int number, const Tile& tile, const Tile&) {
      uint4 gate[2], up[2], y[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t from = shared + pack() / 8 * kChunkBytes +
                              swizzle_128(min(row_of(number, i), kTileRows - 1), pack() % 8);
        gate[i] = read_pack(from);
        up[i] = read_pack(from + 2 * kChunkBytes);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
        y[i] = {gated_pair(gate[i].x, up[i].x), gated_pair(gate[i].y, up[i].y),
                gated_pair(gate[i].z, up[i].z), gated_pair(gate[i].w, up[i].w)};
#pragma unroll
      for (int i = 0; i < 2; ++i) put(tile, row_of(number, i), gate[i], up[i], y[i]);
    }

    // Returns the index of this lane's 16 bytes in its row.
    __device__ static int pack() { return threadIdx.x % 16; }
    // Returns this lane's row in pair i of a unit's two pairs of rows.
    __device__ int row_of(int unit, int i) const {
      return 2 * (epilogue_warp + kEpilogueWarps * (2 * unit + i)) + threadIdx.x % 32 / 16;
    }

    __device__ void put(const Tile& tile, int in_tile, const uint4& gate, const uint4& up, const uint4& y) {
      const int row = tile.row + in_tile, column = tile.column + pack() * 8;
      if (in_tile >= kTileRows || row >= sizes.rows || column >= sizes.columns) return;
      Bf16* to = epilogue.gate_and_up + int64_t{2} * row * sizes.columns + column;
      write(to, gate);
      write(to + sizes.columns, up);
      write(epilogue.y + int64_t{row} * sizes.columns + column, y);
    }
  };
#endif
};

// dy = a b is rounded and never written to memory. An epilogue warp takes each seventh row and loads gate and up four
// rows ahead; the gradients may overwrite these. `y` receives the output again unless it is null.
struct SwigluGradEpilogue {
  static constexpr bool kRowsOfB = true;
  static constexpr int kColumns = kTileColumns;
  const Bf16* gate_and_up = nullptr;
  Bf16 *gradient = nullptr, *y = nullptr;

#ifdef GENESIS_HOPPER
  __device__ static bool is_wanted() { return true; }

  __device__ static void copy_b(uint32_t to, const CUtensorMap* map, uint32_t barrier, int column, int depth,
                                const ProductSizes&) {
#pragma unroll
    for (int i = 0; i < 4; ++i) copy_box(to + i * kDepth * 128, map, barrier, column + i * 64, depth);
  }

  struct Work {
    static constexpr int kBatch = 2;
    struct Batch {
      uint4 gate[kBatch], up[kBatch];
    };
    const SwigluGradEpilogue& epilogue;
    const ProductSizes& sizes;
    uint32_t shared;
    int epilogue_warp;
    Batch even = {}, odd = {};

    __device__ void begin(const Tile& tile) {
      read(even, tile, 0);
      read(odd, tile, kBatch);
    }

    __device__ void unit(int number, const Tile& tile, const Tile& next) {
      const bool is_last = number == kUnits - 1;
      const Tile there{is_last ? next.row : tile.row, is_last ? next.column : tile.column};
      const int first = 2 * kBatch * number, ahead = is_last ? 0 : first + 2 * kBatch;
      finish(even, tile, first);
      read(even, there, ahead);
      finish(odd, tile, first + kBatch);
      read(odd, there, ahead + kBatch);
    }

    // Returns the i-th of this warp's rows.
    __device__ int row_of(int i) const { return epilogue_warp + kEpilogueWarps * i; }
    __device__ int column_in(const Tile& tile) const { return tile.column + threadIdx.x % 32 * 8; }
    __device__ bool is_there(const Tile& tile, int row) const {
      return row < kTileRows && tile.row + row < sizes.rows && column_in(tile) < sizes.columns;
    }
    __device__ int64_t offset_of(const Tile& tile, int row) const {
      return int64_t{2} * (tile.row + row) * sizes.columns + column_in(tile);
    }

    __device__ void read(Batch& batch, const Tile& tile, int first) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int row = row_of(first + i);
        if (!is_there(tile, row)) continue;
        const Bf16* from = epilogue.gate_and_up + offset_of(tile, row);
        batch.gate[i] = read_once(from);
        batch.up[i] = read_once(from + sizes.columns);
      }
    }

    __device__ void finish(const Batch& batch, const Tile& tile, int first) {
      if (row_of(first) >= kTileRows) return;
      const int lane = threadIdx.x % 32;
      Batch made = batch;
      uint4 d[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        d[i] = read_pack(shared + lane / 8 * kChunkBytes +
                         swizzle_128(min(row_of(first + i), kTileRows - 1), lane % 8));
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        differentiate_pair(made.gate[i].x, made.up[i].x, d[i].x);
        differentiate_pair(made.gate[i].y, made.up[i].y, d[i].y);
        differentiate_pair(made.gate[i].z, made.up[i].z, d[i].z);
        differentiate_pair(made.gate[i].w, made.up[i].w, d[i].w);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        if (const int row = row_of(first + i); is_there(tile, row))
          put(tile, row, made.gate[i], made.up[i], d[i]);
    }

    __device__ void put(const Tile& tile, int row, const uint4& dgate, const uint4& dup,
                        const uint4& output) {
      Bf16* to = epilogue.gradient + offset_of(tile, row);
      write(to, dgate);
      write(to + sizes.columns, dup);
      if (epilogue.y) write(epilogue.y + int64_t{tile.row + row} * sizes.columns + column_in(tile), output);
    }
  };
#endif
};

}  // namespace genesis::cuda::hopper
