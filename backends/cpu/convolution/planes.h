// Images as padded planes in f32, in which every tap of a window meets contiguous elements for neighboring positions: with stride s,
// the elements i, i + s, i + 2 s ... of an axis lie side by side and are called phase i. So a tap is a fixed offset into the planes
// of a channel, and a kernel never meets an edge.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/common/window_shape.h"

namespace genesis::cpu {

// Element i of phase p is element i * stride + p - begin of the image, or padding. A negative `begin` crops the image.
struct PlaneAxis {
  int64_t size = 1, begin = 0, stride = 1, phases = 1, extent = 1, positions = 1;
};

// A range of positions whose elements are contiguous in a plane.
struct Run {
  int64_t from, to, size;  // from: in the plane; to: counted from the first position of a range
};

struct PlaneLayout {
  PlaneAxis axis[kMaxSpatialAxes];

  int64_t plane() const { return axis[0].extent * axis[1].extent * axis[2].extent; }
  int64_t channel() const { return axis[0].phases * axis[1].phases * axis[2].phases * plane(); }
  int64_t positions() const { return axis[0].positions * axis[1].positions * axis[2].positions; }
  int64_t elements() const { return axis[0].size * axis[1].size * axis[2].size; }
  // Returns the number of elements from the first to the last position of a tap.
  int64_t span() const {
    return ((axis[0].positions - 1) * axis[1].extent + axis[1].positions - 1) * axis[2].extent +
           axis[2].positions;
  }
  // Returns the offset of the element that position 0 meets, `reach` elements behind the beginning of the padded image.
  int64_t offset(const std::array<int64_t, kMaxSpatialAxes>& reach) const;
  // Returns true if the planes are the image itself, element by element.
  bool is_image() const;
  // Writes the runs of positions [first, first + count), at most `count` of them, and returns their number.
  int list_runs(int64_t first, int64_t count, Run* runs) const;
};

// The planes of windows, and the offsets of the window's taps in row-major order.
PlaneLayout planes_of(const WindowShape& windows);
std::vector<int64_t> tap_offsets(const WindowShape& windows, const PlaneLayout& layout);

// Floats that a kernel may read behind the last plane.
inline constexpr int64_t kPlaneSlack = 64;

// Copies one channel of an image of f32, bf16 or f16 into its planes.
void split_channel(const PlaneLayout& layout, DType dtype, const void* image, float padding, float* planes);

}  // namespace genesis::cpu
