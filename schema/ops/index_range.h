// Which of many indices a tensor has something for: rows of a table, or classes of logits, of which each rank along
// "tensor" has some (vocabulary parallelism, Shoeybi et al. 2019, arXiv:1909.08053). Indices count those of all ranks, and
// one that is elsewhere is no mistake: it reads zeros, and adds nothing. Attributes of ops, and what their kernels ask.
#pragma once

#include "schema/core/philox.h"
#include "schema/graph/graph.h"

namespace genesis {

// The indices [first, first + count) of [0, all).
struct OwnIndices {
  int64_t first = 0, count = 0, all = 0;
  GENESIS_HOST_DEVICE bool exists(int64_t index) const { return index >= 0 && index < all; }
  // Where the tensor has it, from 0 on; -1: elsewhere.
  GENESIS_HOST_DEVICE int64_t place_of(int64_t index) const {
    const int64_t place = index - first;
    return place >= 0 && place < count ? place : -1;
  }
};

namespace ops {

struct IndexRange {
  int64_t first_index = 0, all_indices = 0;  // all 0: the tensor has all there are
  static void fields(auto& self, auto&& visit) {
    visit("first_index", self.first_index);
    visit("all_indices", self.all_indices);
  }
  bool is_part() const { return all_indices > 0; }
  OwnIndices of(int64_t count) const { return {first_index, count, is_part() ? all_indices : count}; }
  // Throws Error where [first_index, first_index + count) is not in [0, all_indices).
  void check(const Dim& count) const;
};

}  // namespace ops
}  // namespace genesis
