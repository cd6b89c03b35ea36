#include "schema/ops/nn/windows.h"

#include "schema/core/error.h"

namespace genesis {

void check_windows(std::string_view op, const Windows& w, const std::vector<int64_t>& window) {
  const size_t axes = window.size();
  if (axes < 1 || axes > kMaxSpatialAxes)
    fail("{} takes 1 to {} spatial axes, got {}", op, kMaxSpatialAxes, axes);
  for (const auto* list : {&w.strides, &w.dilations, &w.pads_begin, &w.pads_end})
    if (list->size() != axes)
      fail("{}: strides, dilations and pads have one number for each of the {} spatial axes, got {}", op,
           axes, list->size());
  for (size_t i = 0; i < axes; ++i)
    if (window[i] < 1 || w.strides[i] < 1 || w.dilations[i] < 1 || w.pads_begin[i] < 0 || w.pads_end[i] < 0)
      fail(
          "{}: along spatial axis {}, window {}, stride {} and dilation {} must be 1 or more, and padding "
          "{}, {} 0 or more",
          op, i, window[i], w.strides[i], w.dilations[i], w.pads_begin[i], w.pads_end[i]);
}

Dim window_positions(const Dim& size, const Windows& w, size_t axis, int64_t window, bool ceil_mode) {
  const int64_t stride = w.strides[axis];
  const int64_t reach = checked_add(checked_mul(w.dilations[axis], window - 1), 1);
  const Dim free = size + Dim(checked_add(w.pads_begin[axis], w.pads_end[axis])) - Dim(reach);
  if (free.is_constant() && free.value() < 0)
    fail("a window of {} does not fit an axis of {} with padding {} and {}", reach, size.to_string(),
         w.pads_begin[axis], w.pads_end[axis]);
  if (!ceil_mode) return Dim::floor_div(free, stride) + 1;
  const Dim begin_inside = Dim::ceil_div(size + Dim(w.pads_begin[axis]), stride);
  return Dim::min(Dim::ceil_div(free, stride) + 1, begin_inside);
}

Shape spatial_sizes(const Shape& x, const Windows& windows) {
  const int first = windows.first_spatial_axis();
  return Shape(std::vector<Dim>(x.begin() + first, x.begin() + first + (x.rank() - 2)));
}

Shape in_layout(const Windows& windows, const Dim& batch, const Dim& channels, const Shape& sizes) {
  Shape shape = {batch};
  if (!windows.channels_last) shape.push_back(channels);
  for (const Dim& size : sizes) shape.push_back(size);
  if (windows.channels_last) shape.push_back(channels);
  return shape;
}

Shape positions_shape(const Shape& x, const Dim& channels, const Windows& windows,
                      const std::vector<int64_t>& window, bool ceil_mode) {
  Shape positions;
  for (size_t i = 0; i < window.size(); ++i)
    positions.push_back(window_positions(x[static_cast<int>(i) + windows.first_spatial_axis()], windows, i,
                                         window[i], ceil_mode));
  return in_layout(windows, x[0], channels, positions);
}

}  // namespace genesis
