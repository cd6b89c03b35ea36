// Describes the range of indices for which a tensor has data: rows of a table or classes of logits, which the ranks along
// "tensor" share (vocabulary parallelism, Shoeybi et al. 2019, arXiv:1909.08053). Indices count over all ranks. An index outside
// the range is not an error: it reads zeros and adds nothing. Ops have an IndexRange as attributes; their kernels use OwnIndices.
#pragma once

#include "schema/core/philox.h"
#include "schema/graph/graph.h"

namespace genesis {

// The indices [first, first + count) out of [0, all).
struct OwnIndices {
  int64_t first = 0, count = 0, all = 0;
  GENESIS_HOST_DEVICE bool exists(int64_t index) const { return index >= 0 && index < all; }
  // Returns the position of the index in the tensor, from 0; -1 if the tensor does not have it.
  GENESIS_HOST_DEVICE int64_t place_of(int64_t index) const {
    const int64_t place = index - first;
    return place >= 0 && place < count ? place : -1;
  }
};

namespace ops {

struct IndexRange {
  int64_t first_index = 0, all_indices = 0;  // all_indices = 0: the tensor has all indices
  static void fields(auto& self, auto&& visit) {
    visit("first_index", self.first_index);
    visit("all_indices", self.all_indices);
  }
  bool is_part() const { return all_indices > 0; }
  OwnIndices of(int64_t count) const { return {first_index, count, is_part() ? all_indices : count}; }
  // Throws Error if [first_index, first_index + count) does not lie in [0, all_indices).
  void check(const Dim& count) const;
};

}  // namespace ops
}  // namespace genesis
