// Splits a product for the implementations that pack operands: C is cut into chunks that are computed one after the other, and
// each chunk into tiles, one task each. Every implementation chooses the sizes by its own costs.
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

// Returns the range that begins at `begin` and has `size` elements, fewer at the end of `all`.
inline Range part_at(int64_t begin, int64_t size, int64_t all) {
  return {begin, std::min(size, all - begin)};
}

// The tiles of a chunk, numbered down its rows first, then along its columns, then over the entries of the batch.
struct TileGrid {
  Range rows, columns;  // ranges of C
  int64_t tile_m, tile_n;

  struct Cell {
    int64_t entry;  // index within the chunk's batch
    Range rows, columns;
  };

  int64_t tiles_m() const { return ceil_div(rows.size, tile_m); }
  int64_t tiles() const { return tiles_m() * ceil_div(columns.size, tile_n); }  // per entry of the batch
  Cell at(int64_t index) const {
    const int64_t i = index % tiles_m() * tile_m, j = index % tiles() / tiles_m() * tile_n;
    return {index / tiles(),
            {rows.begin + i, std::min(tile_m, rows.size - i)},
            {columns.begin + j, std::min(tile_n, columns.size - j)}};
  }
};

// Calls body(0) to body(count - 1) in any order. If `alone`, the calling thread does it all, because other threads would wake up
// too late.
template <class Body>
void for_each_task(bool alone, int64_t count, const Body& body) {
  if (!alone) return parallel_chunks(count, body);
  for (int64_t i = 0; i < count; ++i) body(i);
}

}  // namespace genesis::cpu
