// Views a tensor as rows along one axis, for ops that index slices, sort, or otherwise work along any axis.
#pragma once

#include "backends/kernel.h"

namespace genesis {

// Sizes as [outer, n, inner]; `n` is the size of the axis. A scalar is one row of one element.
struct RowShape {
  int64_t outer = 1, n = 1, inner = 1;
};

inline RowShape row_shape(std::span<const int64_t> sizes, int64_t axis) {
  RowShape shape;
  if (sizes.empty()) return shape;
  const auto at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(sizes.size()) : axis);
  for (size_t i = 0; i < at; ++i) shape.outer *= sizes[i];
  shape.n = sizes[at];
  for (size_t i = at + 1; i < sizes.size(); ++i) shape.inner *= sizes[i];
  return shape;
}

}  // namespace genesis
