// Which strided copies each op that moves elements is, once its sizes are known: the prepare() of the kernels
// in kernels/{reshape,layout,slice}.cpp, of every backend: it is geometry alone.
#pragma once

#include <memory>
#include <optional>

#include "backends/common/moves/moves.h"
#include "schema/graph/target.h"

namespace genesis {

// Each gives a Moves.
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

// A slice whose start is data: the copy is prepared as if it were 0.
struct DynamicCopy {
  StridedCopy copy;
  int64_t step_bytes = 0;  // from one position to the next along the axis
  int64_t last = 0;        // greatest start that fits
};
std::shared_ptr<const void> prepare_dynamic_slice(const KernelQuery& query);  // a DynamicCopy

// An update with a start for each row of axis 0, or of which a length is data: runs of `bytes` that lie together. Run (row,
// outer, step) of the update goes to (row, outer, start + step) of the result.
struct RunUpdate {
  int64_t rows = 1, outer = 1, steps = 0;  // of the update
  int64_t positions = 0, bytes = 0;        // of x along the axis
};

struct DynamicUpdate {
  StridedCopy all;  // of x, where the result is not in place
  DynamicCopy update;
  std::optional<RunUpdate> runs;  // in place of `update`
};
std::shared_ptr<const void> prepare_dynamic_update(const KernelQuery& query);  // a DynamicUpdate

}  // namespace genesis
