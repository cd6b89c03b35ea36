#include "schema/ops/index_range.h"

namespace genesis::ops {

void IndexRange::check(const Dim& count) const {
  if (!is_part()) {
    if (first_index != 0)
      fail("first_index is {}, but all_indices says that there are no others", first_index);
    return;
  }
  const int64_t own = count.constant().value_or(0);
  if (first_index < 0 || own > all_indices || first_index > all_indices - own)
    fail("indices [{}, {}) are not among the {} of all_indices", first_index, first_index + own, all_indices);
}

}  // namespace genesis::ops
