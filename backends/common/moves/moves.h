// A list of strided copies from the inputs of a step to its outputs: what most ops that move elements are,
// once their sizes are known. Made by prepare(), run by a backend's run_moves().
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "backends/common/moves/strided_copy.h"
#include "backends/kernel.h"

namespace genesis {

struct Moves {
  static constexpr int kPattern = -1;  // as `input`: the pattern, repeated
  struct Move {
    int input, output;
    StridedCopy copy;
  };
  std::vector<Move> moves;
  bool ordered = false;  // a move writes over what one before it wrote
  std::array<std::byte, 8> pattern{};
};

// A box inside a dense tensor: element `start` of each axis first, `length` of them in steps of `step`.
struct Box {
  std::vector<int64_t> start, length, step;
};
Box whole_box(std::span<const int64_t> dims);

// One copy between boxes of equal lengths inside dense tensors of the given sizes.
StridedCopy copy_box(std::span<const int64_t> to_dims, const Box& to, std::span<const int64_t> from_dims,
                     const Box& from, int64_t element);

// Writes the pattern around `box` (of steps 1) in output 0: two boxes for each axis.
void surround_with_pattern(Moves& moves, std::span<const int64_t> dims, const Box& box, int64_t element);

// `value` as an element of `dtype`.
std::array<std::byte, 8> pattern_of(DType dtype, Scalar value);

}  // namespace genesis
