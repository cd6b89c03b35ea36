// The windows of a convolution or a pool on the spatial axes of x [batch, channels, ...].
#pragma once

#include <vector>

#include "models/formats/onnx/call.h"

namespace genesis::models::onnx {

// Greatest number of windows, strides, dilations and padding that are read.
inline constexpr int64_t kMaxWindow = 1 << 20;

// One number for each spatial axis.
struct WindowAttributes {
  std::vector<int64_t> window, stride, dilation, before, after;
  std::vector<int64_t>
      overhang;  // more padding at the end, for a last window that hangs over it; negative: unused elements
  bool overhangs = false;  // ceil_mode has added a window

  bool is_small() const;  // padding is from 0 to half of the window
  bool crops() const;     // some padding is negative
  WindowAttributes without_padding() const;
};

// Reads strides, pads and dilations.
WindowAttributes plain_windows(Call& call, const std::vector<int64_t>& window);
// Reads auto_pad and ceil_mode, too, which depend on the sizes of x.
WindowAttributes windows_of(Call& call, Value x, const std::vector<int64_t>& window);

Value padded_by(Value x, const WindowAttributes& w, double value);   // by before and after
Value padded_for(Value x, const WindowAttributes& w, double value);  // by the overhang, too
// Returns, for each place in the window, the elements of a padded x that it meets at all positions.
std::vector<Value> places_in_windows(Value padded, const WindowAttributes& w);
Value window_sums(Value x, const WindowAttributes& w);

}  // namespace genesis::models::onnx
