// The common description of all ops that move elements: a box of elements is read with one set of strides and written with
// another. Only geometry, so every backend uses it; cpu/moves and cuda/moves execute it. make_strided_copy() simplifies it as far
// as possible.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schema/core/shape.h"

namespace genesis {

// Strides count elements. Strides of the source may be 0 (repeat) or negative, those of the target are positive.
struct StridedCopy {
  int rank = 0;  // after merging axes; 0: one element
  std::array<int64_t, kMaxRank> dims{}, to{}, from{};
  int64_t element = 1;                     // bytes moved at once: 1, 2, 4, 8 or 16
  int64_t to_offset = 0, from_offset = 0;  // bytes
  bool empty = false;
  int transposed = -1;  // the axis along which the source is contiguous; -1: the last one, or none
};

// Offsets count elements. `widen` allows a short row to be moved as one wider element; turn it off if the caller shifts the
// pointers later, which would break the alignment.
StridedCopy make_strided_copy(std::span<const int64_t> dims, std::span<const int64_t> to,
                              std::span<const int64_t> from, int64_t element, int64_t to_offset = 0,
                              int64_t from_offset = 0, bool widen = true);

std::vector<int64_t> dense_strides(std::span<const int64_t> dims);

}  // namespace genesis
