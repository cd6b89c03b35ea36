// Plans how a fused program is spread over a GPU, from its types alone, so that it can be asked and tested without a
// GPU. fused_source.cpp writes the kernel from the plan, and kernels/tensor/elementwise.cpp starts it.
//
// Without reductions every thread computes `chunks` packs of `pack` neighboring elements, all loaded before the first
// result is written. With reductions `threads_per_row` threads compute a row. A row that is short enough is kept in
// registers (`in_registers`); a longer one is read again for every reduction that depends on another.
#pragma once

#include "schema/ops/elementwise/fused_space.h"

namespace genesis::cuda {

inline constexpr int kMaxFusedPointers = 256;  // inputs and outputs of one kernel

// Number of different elements of a value: one in all, one per row (or per pack), or one per element of the space.
enum class Extent { kOne, kRow, kTile };

struct FusedPlan {
  FusedSpace space;
  std::vector<Extent> extents;  // one per value
  std::vector<int> depths;      // one per value: number of reductions in sequence that it depends on
  int pack = 1, chunks = 1;
  int threads = 256;  // threads of a block
  int threads_per_row = 1;
  bool in_registers = true;
  bool by_element = false;  // gather broadcast inputs element by element: a pack may cross a row's end
  bool wide_index = false;  // 2^31 elements or more
  int64_t items = 0;        // number of elements, or of rows
  int64_t blocks = 0;

  int64_t columns() const { return space.sizes.back(); }
  int rows_per_block() const { return threads / threads_per_row; }
};

// Plans a program; sizes must be known. Throws Error if the program cannot run on a GPU.
FusedPlan plan_fused(const FusedProgram& program);

}  // namespace genesis::cuda
