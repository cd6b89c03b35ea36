// The product of weights by the columns of an image, which are packed tile by tile and never exist as a whole (implicit GEMM):
// y[image][group * rows + i][position] = epilogue(sum over channels and taps of weights[group * rows + i][channel, tap] * element).
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/convolution/planes.h"
#include "backends/cpu/convolution/tiles.h"

namespace genesis::cpu {

struct TapProduct {
  PlaneLayout layout = {};
  std::vector<int64_t> taps = {};              // offsets into the planes of a channel
  int64_t groups = 1, rows = 1, channels = 1;  // rows and channels of one group
  bool is_exact = false;  // the planes are memory of the caller, with nothing behind them

  int64_t depth() const { return channels * static_cast<int64_t>(taps.size()); }
  int64_t positions() const { return layout.positions(); }
};

// Returns the product that a convolution is, over padded planes of x. Its weight gradient runs over the same planes.
TapProduct tap_product_of(const ConvolutionShape& shape);

// `planes` are [images][groups * channels] channels, `weights` [groups * rows][depth] and y [images][groups * rows][positions].
void run_tap_product(const TapProduct& product, const float* weights, const float* planes, int64_t images,
                     float* y, const Epilogue& epilogue);

// Adds to dw [groups * rows][depth], or writes it unless `add`: the sum over images and positions of dy [images][groups *
// rows][positions] times the columns.
void run_weight_gradient(const TapProduct& product, const float* dy, const float* planes, int64_t images,
                         float* dw, bool add);

}  // namespace genesis::cpu
