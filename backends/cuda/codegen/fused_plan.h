// How a fused program is spread over a GPU: decided from its types alone, so that it can be asked and tested
// without one. Used by fused_source.cpp, which writes the kernel, and kernels/tensor/elementwise.cpp, which starts
// it.
//
// Without reductions every thread makes `chunks` packs of `pack` neighbouring elements, loaded before the
// first result is written. With reductions `threads_per_row` threads make a row: where a row is short enough
// it is kept in registers (`in_registers`), else it is read again for every reduction that needs another.
#pragma once

#include "schema/ops/elementwise/fused_space.h"

namespace genesis::cuda {

inline constexpr int kMaxFusedPointers = 256;  // inputs and outputs of one kernel

// What a value depends on: one for all, one per row (or per chunk), one per element.
enum class Extent { kOne, kRow, kTile };

struct FusedPlan {
  FusedSpace space;
  std::vector<Extent> extents;  // by value
  std::vector<int> depths;      // by value: reductions on the way to it
  int pack = 1, chunks = 1;
  int threads = 256;  // of a block
  int threads_per_row = 1;
  bool in_registers = true;
  bool by_element = false;  // without reductions: broadcast inputs do not keep step with packs
  bool wide_index = false;  // 2^31 elements and more
  int64_t items = 0;        // elements, or rows
  int64_t blocks = 0;

  int64_t columns() const { return space.sizes.back(); }
  int rows_per_block() const { return threads / threads_per_row; }
};

// Sizes must be known. Throws Error where the program cannot run on a GPU.
FusedPlan plan_fused(const FusedProgram& program);

}  // namespace genesis::cuda
