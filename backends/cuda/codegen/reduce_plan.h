// Plans how a reduction is spread over a GPU, from its type and axes alone.
//
// Neighboring axes of the same kind (kept or reduced) are merged. If the innermost one is reduced, `inner` is 1 and
// every result is the reduction of a row that `lanes` threads share. Otherwise `inner` columns lie side by side, with
// `lanes` threads across them.
#pragma once

#include <vector>

#include "schema/core/tensor.h"

namespace genesis::cuda {

struct StridedAxis {
  int64_t size, stride;  // in elements of the input
};

struct ReducePlan {
  std::vector<StridedAxis> kept, reduced;  // without the `inner` columns
  int64_t outer = 1, count = 1, inner = 1;
  int pack = 1, lanes = 32, threads = 256;
  int64_t pieces = 1, piece = 0;  // a result may be split between several blocks, with `piece` elements each

  int64_t results() const { return outer * inner; }
  int64_t blocks(int pack_width) const;
  int64_t counters() const { return pieces == 1 ? 0 : blocks(1) / pieces; }
  int64_t scratch_bytes() const;
};

// `axes` comes from normalize_axes(). Sizes must be known.
ReducePlan plan_reduce(const TensorType& x, const std::vector<int>& axes);

}  // namespace genesis::cuda
