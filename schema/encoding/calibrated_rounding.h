// Rounds weights to q4m so that the results of their product change least on given inputs x, rather than the weights themselves:
// GPTQ (https://arxiv.org/abs/2210.17323). Values of a row are rounded one after another, and the error of each is made up for by
// those that follow, as far as the inputs are correlated.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/encoding/state_format.h"

namespace genesis {

// Describes the inputs x [rows, width] of a product for rounding: holds the factor U of the inverse of their Gram matrix G = x^T
// x, (G + damping)^-1 = U^T U with U upper triangular. Blocks of 32 inputs come in the order of their power, the largest first:
// their errors have the most values left that make up for them.
class InputFactor {
 public:
  // `gram`: f32 [width, width], row by row; the width is a multiple of 32. Takes eight bytes an element while it works.
  explicit InputFactor(std::span<const float> gram, int64_t width);

  int64_t width() const { return width_; }
  const std::vector<int64_t>& blocks() const { return blocks_; }  // the blocks in the order of rounding
  // Returns row i of U; in the order of rounding, as are its elements. Those before i are 0.
  const float* row(int64_t i) const { return upper_.data() + i * width_; }

 private:
  int64_t width_;
  std::vector<int64_t> blocks_;
  std::vector<float> upper_;
};

// Returns `values` [out, width] encoded in q4m; `format` is the format for their dtype. The result depends on neither the number
// of threads nor other rows. Throws Error for values that the format cannot hold.
EncodedValues round_calibrated(const StateFormat& format, const Tensor& values, const InputFactor& factor);

}  // namespace genesis
