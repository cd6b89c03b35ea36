// Windows that move over the spatial axes of x [batch, channels, ...], shared by convolutions and pooling: how they are placed, and
// how many positions they have.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "schema/core/shape.h"

namespace genesis {

// One number for each of the 1 to 3 spatial axes. Position i along an axis begins at element i * stride - pad_begin; tap t of the
// window meets the element t * dilation behind that. Padded elements do not exist in memory.
struct Windows {
  std::vector<int64_t> strides, dilations, pads_begin, pads_end;
  static void fields(auto& self, auto&& visit) {
    visit("strides", self.strides);
    visit("dilations", self.dilations);
    visit("pads_begin", self.pads_begin);
    visit("pads_end", self.pads_end);
  }
  size_t axes() const { return strides.size(); }
};

inline constexpr int kMaxSpatialAxes = 3;

// Throws Error naming `op` unless there are 1 to 3 axes, and numbers in range for each of them.
void check_windows(std::string_view op, const Windows& windows, const std::vector<int64_t>& window);

// Returns the number of positions along one axis of `size` elements: (size + pads - reach) / stride + 1, rounded down, or up with
// `ceil_mode` if the last window still begins inside of the axis or of the padding before it. Throws Error if a known size is less
// than the reach of the window.
Dim window_positions(const Dim& size, const Windows& windows, size_t axis, int64_t window,
                     bool ceil_mode = false);

// Returns [batch, channels, positions...] of windows over x [batch, any, sizes...].
Shape positions_shape(const Shape& x, const Dim& channels, const Windows& windows,
                      const std::vector<int64_t>& window, bool ceil_mode = false);

}  // namespace genesis
