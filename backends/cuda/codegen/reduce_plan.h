// How a reduction is spread over a GPU: decided from its type and axes alone. Used by reduce_source.cpp and
// kernels/tensor/reduce.cpp.
//
// Neighbouring axes of one kind are merged. If the last one left is reduced, `inner` is 1 and every result is
// a row: `lanes` threads share it. Otherwise `inner` columns lie side by side, `lanes` threads across them.
#pragma once

#include <vector>

#include "schema/core/tensor.h"

namespace genesis::cuda {

struct StridedAxis {
  int64_t size, stride;  // in elements of the input
};

struct ReducePlan {
  std::vector<StridedAxis> kept, reduced;  // the columns of `inner` aside
  int64_t outer = 1, count = 1, inner = 1;
  int pack = 1, lanes = 32, threads = 256;
  int64_t pieces = 1, piece = 0;  // one result may be made by several blocks, `piece` elements each

  int64_t results() const { return outer * inner; }
  int64_t blocks(int pack_width) const;
  int64_t counters() const { return pieces == 1 ? 0 : blocks(1) / pieces; }
  int64_t scratch_bytes() const;
};

// `axes` as normalize_axes gives them. Sizes must be known.
ReducePlan plan_reduce(const TensorType& x, const std::vector<int>& axes);

}  // namespace genesis::cuda
