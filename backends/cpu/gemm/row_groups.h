// The groups of rows of grouped products (schema/ops/nn/grouped_matmul.h), from offsets that are data of a run.
#pragma once

#include <cstdint>

#include "backends/kernel.h"

namespace genesis::cpu {

// The rows [first, first + rows) belong to group `group`.
struct RowGroup {
  int64_t group, first, rows;
};

// Returns the offsets i64 [groups + 1] if they never decrease and lie in [0, rows]. Otherwise reports a fault and returns null.
const int64_t* checked_offsets(const TensorView& offsets, int64_t rows, Fault* fault);

// Writes the groups that have rows, cut into pieces of `most` rows at most, and returns how many there are. `pieces` has room for
// max_pieces() of them.
int64_t list_pieces(const int64_t* offsets, int64_t groups, int64_t most, RowGroup* pieces);
int64_t max_pieces(int64_t rows, int64_t groups, int64_t most);

// Writes zeros to the rows of c [rows, ...] that belong to no group; all of them if `offsets` is null.
void clear_other_rows(const int64_t* offsets, int64_t groups, const TensorView& c);

}  // namespace genesis::cpu
