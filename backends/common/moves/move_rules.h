// Translates each op that moves elements, once its sizes are known, into strided copies: the prepare() functions of the kernels
// in kernels/tensor/{reshape,layout,slice}. Only geometry, so every backend uses them.
#pragma once

#include <memory>
#include <optional>

#include "backends/common/moves/moves.h"
#include "schema/graph/target.h"

namespace genesis {

// Each returns a Moves.
std::shared_ptr<const void> prepare_reshape(const KernelQuery& query);
std::shared_ptr<const void> prepare_expand(const KernelQuery& query);
std::shared_ptr<const void> prepare_permute(const KernelQuery& query);
std::shared_ptr<const void> prepare_flip(const KernelQuery& query);
std::shared_ptr<const void> prepare_roll(const KernelQuery& query);
std::shared_ptr<const void> prepare_slice(const KernelQuery& query);
std::shared_ptr<const void> prepare_unslice(const KernelQuery& query);
std::shared_ptr<const void> prepare_concat(const KernelQuery& query);
std::shared_ptr<const void> prepare_split(const KernelQuery& query);
std::shared_ptr<const void> prepare_pad(const KernelQuery& query);

// A slice whose start is run-time data: the copy is prepared for start 0.
struct DynamicCopy {
  StridedCopy copy;
  int64_t step_bytes = 0;  // from one position to the next along the axis
  int64_t last = 0;        // greatest valid start
};
std::shared_ptr<const void> prepare_dynamic_slice(const KernelQuery& query);  // returns a DynamicCopy

// An update with one start per row of axis 0, or whose length is run-time data, as contiguous runs of `bytes` bytes. Run (row,
// outer, step) of the update goes to (row, outer, start + step) of the result.
struct RunUpdate {
  int64_t rows = 1, outer = 1, steps = 0;  // sizes of the update
  int64_t positions = 0, bytes = 0;        // positions: size of x along the axis; bytes: of one run
};

struct DynamicUpdate {
  StridedCopy all;  // the copy of x, if the result is not in place
  DynamicCopy update;
  std::optional<RunUpdate> runs;  // if set, replaces `update`
};
std::shared_ptr<const void> prepare_dynamic_update(const KernelQuery& query);  // returns a DynamicUpdate

}  // namespace genesis
