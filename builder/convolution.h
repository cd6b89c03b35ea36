// Convolution and pooling with torch's formulas, over any number of spatial axes: x is [batch, channels, ...]. They are composed of
// slices and one matrix product at once, so they have gradients and run on every device. The windows exist in memory as
// [batch, channels, window, positions].
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
  std::vector<int64_t> stride = {};    // 1
  std::vector<int64_t> padding = {};   // zeros on both sides: 0
  std::vector<int64_t> dilation = {};  // 1
  int64_t groups = 1;                  // channels of x and of y are divided into so many groups
};
// weight is [out channels, in channels / groups, window...], bias [out channels] or empty. A spatial axis of x has a known size,
// unless the stride along it is 1. Throws Error if sizes do not fit.
Value conv(Value x, Value weight, Value bias = {}, const ConvOptions& options = {});

struct PoolOptions {
  std::vector<int64_t> window;
  std::vector<int64_t> stride = {};    // the window
  std::vector<int64_t> padding = {};   // at most half the window: 0
  std::vector<int64_t> dilation = {};  // 1; of max_pool only
  bool ceil_mode = false;              // a last window may hang over the end
  bool count_padding = true;           // avg_pool divides by the whole window at the edges, too
};
Value max_pool(Value x, const PoolOptions& options);
Value avg_pool(Value x, const PoolOptions& options);
// Averages over windows that divide each spatial axis into `sizes` equal or nearly equal ranges, as torch does. Axes have known
// sizes.
Value adaptive_avg_pool(Value x, const std::vector<int64_t>& sizes);

}  // namespace genesis
