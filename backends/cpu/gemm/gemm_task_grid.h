// Numbers the tasks of a product, for the implementations that pack operands (gemm_packed.cpp, amx/gemm_amx.cpp). They split C
// into chunks, which are computed one after the other, and each chunk into tiles, one task each. Every implementation chooses the
// sizes by its own costs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/gemm/gemm_operand.h"
#include "backends/cpu/gemm/gemm_problem.h"
#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {

// The arguments of Gemm::run().
struct GemmCall {
  const void *a, *b;
  void* c;
  const void* bias;
  std::byte* scratch;
  const void* addend;  // null = nothing is added
};

inline double flops_of(const GemmProblem& p) {
  return 2.0 * static_cast<double>(p.batch * p.m * p.n) * static_cast<double>(p.k);
}

// Returns the range of `size` elements from `begin` on, or of fewer if it would go beyond `end`.
inline Range range_at(int64_t begin, int64_t size, int64_t end) {
  return {begin, std::min(size, end - begin)};
}

// The tiles of a chunk, numbered down its rows first, then along its columns, then over the entries of the batch.
struct TileGrid {
  Range rows, columns;  // ranges of C
  int64_t tile_m, tile_n;

  // One tile; its ranges are ranges of C.
  struct Cell {
    int64_t entry;  // index within the chunk's batch
    Range rows, columns;
  };

  int64_t tiles_m() const { return ceil_div(rows.size, tile_m); }
  int64_t tiles() const { return tiles_m() * ceil_div(columns.size, tile_n); }  // per entry of the batch
  // Returns the tile with this number, from 0.
  Cell at(int64_t index) const {
    const int64_t i = index % tiles_m() * tile_m, j = index % tiles() / tiles_m() * tile_n;
    return {index / tiles(),
            {rows.begin + i, std::min(tile_m, rows.size - i)},
            {columns.begin + j, std::min(tile_n, columns.size - j)}};
  }
};

// Calls body(0) to body(count - 1) in any order, in parallel. With `alone`, the calling thread runs all of them: for products so
// small that other threads would wake up too late to help.
template <class Body>
void for_each_task(bool alone, int64_t count, const Body& body) {
  if (!alone) return parallel_chunks(count, body);
  for (int64_t i = 0; i < count; ++i) body(i);
}

}  // namespace genesis::cpu
