// A list of strided copies from the inputs of a step to its outputs; most ops that move elements can be reduced to this. Made by
// prepare(), executed by a backend's run_moves().
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "backends/common/moves/strided_copy.h"
#include "backends/kernel.h"

namespace genesis {

struct Moves {
  static constexpr int kPattern = -1;  // value of `input` for the repeated pattern
  struct Move {
    int input, output;
    StridedCopy copy;
  };
  std::vector<Move> moves;
  bool ordered = false;  // must run in order: a move overwrites results of an earlier one
  std::array<std::byte, 8> pattern{};
};

// A box inside a dense tensor: `length` elements of each axis, from `start` on with stride `step`.
struct Box {
  std::vector<int64_t> start, length, step;
};
Box whole_box(std::span<const int64_t> dims);

// Returns one copy between boxes of equal lengths inside dense tensors of the given sizes.
StridedCopy copy_box(std::span<const int64_t> to_dims, const Box& to, std::span<const int64_t> from_dims,
                     const Box& from, int64_t element);

// Fills everything around `box` (with steps of 1) in output 0 with the pattern: two boxes per axis.
void surround_with_pattern(Moves& moves, std::span<const int64_t> dims, const Box& box, int64_t element);

// Returns `value` as an element of `dtype`.
std::array<std::byte, 8> pattern_of(DType dtype, Scalar value);

}  // namespace genesis
