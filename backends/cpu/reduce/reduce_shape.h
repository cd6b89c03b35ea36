// The shape of a reduction as the kernels see it: [outer, count, inner], of which the `count` elements become one. If the reduced
// axes do not fit this pattern, a copy into scratch memory brings them there.
#pragma once

#include <optional>

#include "backends/common/moves/strided_copy.h"

namespace genesis::cpu {

struct ReduceShape {
  int64_t outer = 1, count = 1, inner = 1;
  std::optional<StridedCopy> gather;  // a copy into scratch memory ahead of the reduction
  int64_t gather_bytes = 0;           // a multiple of 64
};

// With `rows_only`, inner is always 1.
ReduceShape make_reduce_shape(const Shape& shape, std::span<const int> axes, DType dtype, bool rows_only);

}  // namespace genesis::cpu
