// A tensor seen as rows along one axis: what ops that pick slices by an index need. Used by
// kernels/index_rows of every backend.
#pragma once

#include "backends/kernel.h"

namespace genesis {

// x seen as [outer, rows, inner].
struct RowShape {
  int64_t outer = 1, rows = 0, inner = 1;
};

inline RowShape row_shape(const TensorView& x, int64_t axis) {
  RowShape shape;
  const int at = static_cast<int>(axis < 0 ? axis + x.rank : axis);
  for (int i = 0; i < at; ++i) shape.outer *= x.dim(i);
  shape.rows = x.dim(at);
  for (int i = at + 1; i < x.rank; ++i) shape.inner *= x.dim(i);
  return shape;
}

}  // namespace genesis
