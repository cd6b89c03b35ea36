// Windows that move over the spatial axes of x [batch, channels, ...], shared by convolutions and pooling: how they are placed,
// how many positions they have, and in which layout x lies.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "schema/core/shape.h"

namespace genesis {

// One number for each of the 1 to 3 spatial axes. Position i along an axis begins at element i * stride - pad_begin; tap t of the
// window meets the element t * dilation behind that. Padded elements do not exist in memory.
//
// With `channels_last` every tensor of the op has its second axis at the end: x is [batch, ..., channels], and the weight of a
// convolution is [out, window..., in / groups]. A pass chooses this layout for a target (passes/fusion/channels_last.cpp); layers
// and other formats never do.
struct Windows {
  std::vector<int64_t> strides, dilations, pads_begin, pads_end;
  bool channels_last = false;
  static void fields(auto& self, auto&& visit) {
    visit("strides", self.strides);
    visit("dilations", self.dilations);
    visit("pads_begin", self.pads_begin);
    visit("pads_end", self.pads_end);
    visit("channels_last", self.channels_last);
  }
  size_t axes() const { return strides.size(); }
  // Return the axes of a tensor of `rank` axes: that of the channels, and that of spatial axis 0.
  int channel_axis(int rank) const { return channels_last ? rank - 1 : 1; }
  int first_spatial_axis() const { return channels_last ? 1 : 2; }
};

inline constexpr int kMaxSpatialAxes = 3;

// Throws Error naming `op` unless there are 1 to 3 axes, and numbers in range for each of them.
void check_windows(std::string_view op, const Windows& windows, const std::vector<int64_t>& window);

// Returns the number of positions along one axis of `size` elements: (size + pads - reach) / stride + 1, rounded down, or up with
// `ceil_mode` if the last window still begins inside of the axis or of the padding before it. Throws Error if a known size is less
// than the reach of the window.
Dim window_positions(const Dim& size, const Windows& windows, size_t axis, int64_t window,
                     bool ceil_mode = false);

// Returns the sizes of the spatial axes of a tensor in the layout of `windows`; those of a weight are the sizes of its window.
Shape spatial_sizes(const Shape& x, const Windows& windows);
// Returns [batch, channels, sizes...], or [batch, sizes..., channels].
Shape in_layout(const Windows& windows, const Dim& batch, const Dim& channels, const Shape& sizes);

// Returns the shape with `channels` and the positions of windows over x, which has any number of channels.
Shape positions_shape(const Shape& x, const Dim& channels, const Windows& windows,
                      const std::vector<int64_t>& window, bool ceil_mode = false);

}  // namespace genesis
