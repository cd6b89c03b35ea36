// Convolution and pooling with torch's formulas, over 1 to 3 spatial axes: x is [batch, channels, ...].
//
//     const Value y = conv(x, weight, bias, {.stride = {2, 2}, .padding = {1, 1}});
//     const Value pooled = adaptive_avg_pool(max_pool(relu(y), {.window = {3, 3}, .stride = {2, 2}}), {1, 1});
#pragma once

#include <cstdint>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis {

// One number for each spatial axis; an empty list means the default for all of them.
struct ConvOptions {
  std::vector<int64_t> stride = {};       // 1
  std::vector<int64_t> padding = {};      // zeros before the first element: 0
  std::vector<int64_t> dilation = {};     // 1
  int64_t groups = 1;                     // channels of x and of y are divided into so many groups
  std::vector<int64_t> padding_end = {};  // zeros behind the last element: as many as before the first
};
// weight is [out channels, in channels / groups, window...], bias [out channels] or empty. A spatial axis of x has a known size,
// or one that the stride divides up to a constant, such as 2*h + 1. Throws Error if sizes do not fit.
Value conv(Value x, Value weight, Value bias = {}, const ConvOptions& options = {});

// The transposed convolution (torch.nn.functional.conv_transpose): weight is [in channels, out channels / groups, window...], and
// an axis of n elements becomes one of (n - 1) stride - padding - padding_end + dilation (window - 1) + 1 + output_padding.
Value conv_transpose(Value x, Value weight, Value bias = {}, const ConvOptions& options = {},
                     const std::vector<int64_t>& output_padding = {});

// ONNX's auto_pad SAME_UPPER, or SAME_LOWER with `lower`: sets both paddings so that ceil(size / stride) positions remain. Sizes of
// x are known.
ConvOptions same_padding(Value x, const std::vector<int64_t>& window, ConvOptions options,
                         bool lower = false);

struct PoolOptions {
  std::vector<int64_t> window;
  std::vector<int64_t> stride = {};       // the window
  std::vector<int64_t> padding = {};      // less than a window: 0
  std::vector<int64_t> dilation = {};     // 1
  bool ceil_mode = false;                 // a last window may hang over the end
  bool count_padding = true;              // avg_pool divides by the whole window at the edges, too
  std::vector<int64_t> padding_end = {};  // equal to `padding`
};
Value max_pool(Value x, const PoolOptions& options);
Value avg_pool(Value x, const PoolOptions& options);
// The sum of each window's elements to the power p, to the power 1 / p; x is not negative unless p is even.
Value lp_pool(Value x, double p, const PoolOptions& options);
// Averages and maxima over windows that divide each spatial axis into `sizes` equal or nearly equal ranges, as torch does. Axes
// have known sizes.
Value adaptive_avg_pool(Value x, const std::vector<int64_t>& sizes);
Value adaptive_max_pool(Value x, const std::vector<int64_t>& sizes);

// Normalizes the channels of each image in `groups` groups (torch.nn.functional.group_norm); weight and bias [channels] or empty.
Value group_norm(Value x, int64_t groups, Value weight = {}, Value bias = {}, double eps = 1e-5);

}  // namespace genesis
