// The epilogue of the logits product x weight^T (hopper_gemm.h) in bf16. Instead of logits it writes exp(logit -
// reference), with a given reference per row that is near the row's largest logit, and the sums of these
// exponentials. So no kernel reads the logits again.
#pragma once

#include "backends/cuda/hopper/hopper_gemm.h"
#include "backends/cuda/rows/logit_rows.h"

namespace genesis::cuda::hopper {

// The data of a row that is known before its logits.
struct LogitRow {
  float reference = 0;  // subtracted from the logits
  int target = -1;      // target class; -1: the row does not count, and its exponentials are zeros
};

// Sum and maximum over a row's logits in one tile.
struct LogitSum {
  float sum = 0;  // sum of the exponentials before they are rounded
  float max = -INFINITY;
};

// Computes exp(logit - reference) of the logits rounded to bf16. Eight lanes of an epilogue warp share a row: a warp
// has four rows per unit, and writes a cache line of each at a time.
struct ExponentialEpilogue {
  using Bf16 = __nv_bfloat16;
  static constexpr bool kRowsOfB = false;
  static constexpr int kColumns = kTileColumns;

  const LogitRow* rows = nullptr;  // [rows]
  Bf16* exponentials = nullptr;    // [rows, ld]
  int64_t ld = 0;
  float* target_logits = nullptr;  // [rows]
  LogitSum* sums = nullptr;        // [column tiles, sums_ld]
  int64_t sums_ld = 0;
  const int* wanted = nullptr;  // does nothing if it points to 0; null: always runs

#ifdef GENESIS_HOPPER
  __device__ bool is_wanted() const { return !wanted || *wanted != 0; }

  __device__ static void copy_b(uint32_t to, const CUtensorMap* map, uint32_t barrier, int column, int depth,
                                const ProductSizes&) {
    copy_box(to, map, barrier, depth, column);
  }

  struct Work {
    static constexpr int kRows = 4, kLanes = 8, kChunks = kTileColumns / 64;
    const ExponentialEpilogue& epilogue;
    const ProductSizes& sizes;
    uint32_t shared;
    int epilogue_warp;
    LogitRow coming = {};  // the next unit's row

    __device__ void begin(const Tile& tile) { coming = row_known(tile, 0); }

    __device__ void unit(int number, const Tile& tile, const Tile& next) {
      const LogitRow known = coming;
      coming = number + 1 < kUnits ? row_known(tile, number + 1) : row_known(next, 0);
      const int in_tile = row_of(number), row = tile.row + in_tile;
      if (in_tile - lane() / kLanes >= kTileRows) return;
      uint4 packs[kChunks];
#pragma unroll
      for (int i = 0; i < kChunks; ++i)
        packs[i] = read_pack(shared + i * kChunkBytes + swizzle_128(in_tile, pack()));
      if (tile.column + kTileColumns > sizes.columns) lower_past_end(packs, tile);
      const bool there = row < sizes.rows;
      const LogitSum sum = exponentiate(packs, known);
      if (there) {
        put(packs, tile, row);
        put_target(known.target - tile.column, in_tile, row);
        if (pack() == 0) epilogue.sums[tile.column / kTileColumns * epilogue.sums_ld + row] = sum;
      }
    }

    __device__ static int lane() { return threadIdx.x % 32; }
    // Returns the index of this lane's 16 bytes in each chunk.
    __device__ static int pack() { return threadIdx.x % kLanes; }
    __device__ int row_of(int unit) const {
      return kRows * (epilogue_warp + kEpilogueWarps * unit) + lane() / kLanes;
    }
    __device__ LogitRow row_known(const Tile& tile, int unit) const {
      const int in_tile = row_of(unit), row = tile.row + in_tile;
      return in_tile < kTileRows && row < sizes.rows ? epilogue.rows[row] : LogitRow{};
    }
    // Returns the column of this lane's pack in the whole matrix.
    __device__ static int column_of(const Tile& tile, int chunk) {
      return tile.column + chunk * 64 + pack() * 8;
    }

    // Sets logits of classes that do not exist to -inf, so that their exponentials are 0.
    __device__ void lower_past_end(uint4 (&packs)[kChunks], const Tile& tile) const {
#pragma unroll
      for (int i = 0; i < kChunks; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int left = sizes.columns - column_of(tile, i) - 2 * j;
          const uint32_t word = word_of(packs[i], j);
          set_word(packs[i], j, left > 1 ? word : left == 1 ? (word & 0xFFFFu) | 0xFF800000u : 0xFF80FF80u);
        }
    }

    // Replaces the logits by their exponentials.
    __device__ static LogitSum exponentiate(uint4 (&packs)[kChunks], const LogitRow& known) {
      const ShiftedPower<Bf16> power(known.reference);
      const uint32_t mask = known.target < 0 ? 0 : ~0u;
      float even = 0, odd = 0;
      __nv_bfloat162 most = __float2bfloat162_rn(-INFINITY);
#pragma unroll
      for (int i = 0; i < kChunks; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const uint32_t word = word_of(packs[i], j);
          most = __hmax2(most, reinterpret_cast<const __nv_bfloat162&>(word));
          const float first = power(low_of<Bf16>(word)), second = power(high_of<Bf16>(word));
          even += first;
          odd += second;
          set_word(packs[i], j, pair_of<Bf16>(first, second) & mask);
        }
      return {reduce_lanes(even + odd, kLanes, Add{}),
              reduce_lanes(fmaxf(__low2float(most), __high2float(most)), kLanes, Max{})};
    }

    __device__ void put(const uint4 (&packs)[kChunks], const Tile& tile, int row) const {
      Bf16* to = epilogue.exponentials + row * epilogue.ld;
#pragma unroll
      for (int i = 0; i < kChunks; ++i)
        if (const int column = column_of(tile, i); column < sizes.columns)
          *reinterpret_cast<uint4*>(to + column) = packs[i];
    }

    // Writes the target's logit if `column`, the target's column relative to the tile, is in the tile.
    __device__ void put_target(int column, int in_tile, int row) const {
      if (column < 0 || column >= kTileColumns || pack() != column / 8 % 8) return;
      const uint4 words = read_pack(shared + column / 64 * kChunkBytes + swizzle_128(in_tile, pack()));
      const uint32_t word = word_of(words, column % 8 / 2);
      epilogue.target_logits[row] = column % 2 == 0 ? low_of<Bf16>(word) : high_of<Bf16>(word);
    }
  };
#endif
};

}  // namespace genesis::cuda::hopper
