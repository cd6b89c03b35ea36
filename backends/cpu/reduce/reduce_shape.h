// The shape of a reduction as the kernels see it: [outer, count, inner], where `count` elements become one.
// Axes that do not fit this pattern are brought there by a copy into scratch. Used by kernels/tensor/reduce.cpp and
// its kin.
#pragma once

#include <optional>

#include "backends/common/moves/strided_copy.h"

namespace genesis::cpu {

struct ReduceShape {
  int64_t outer = 1, count = 1, inner = 1;
  std::optional<StridedCopy> gather;  // into scratch, before the reduction
  int64_t gather_bytes = 0;           // a multiple of 64
};

// `rows_only`: inner is 1 in any case.
ReduceShape make_reduce_shape(const Shape& shape, std::span<const int> axes, DType dtype, bool rows_only);

}  // namespace genesis::cpu
