// The geometry of convolutions and pooling with known sizes, shared by all backends. There are always three spatial axes; an op
// with fewer has leading axes of size 1 with a window of 1.
#pragma once

#include <span>

#include "backends/kernel.h"
#include "schema/core/philox.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/pooling.h"

namespace genesis {

// One spatial axis: `size` elements, `positions` of a window of `taps` elements. Tap t at position i meets element
// i * stride + t * dilation - begin, which is padding unless it is in [0, size).
struct WindowAxis {
  int64_t size = 1, positions = 1, taps = 1, stride = 1, dilation = 1, begin = 0, end = 0;

  GENESIS_HOST_DEVICE int64_t element(int64_t position, int64_t tap) const {
    return position * stride + tap * dilation - begin;
  }
  GENESIS_HOST_DEVICE bool contains(int64_t element) const { return element >= 0 && element < size; }
  // Returns how many taps at a position are elements, or elements and padding; a tap beyond the padding never counts.
  GENESIS_HOST_DEVICE int64_t counted(int64_t position, bool count_padding) const {
    int64_t count = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t at = element(position, tap);
      count += count_padding ? at < size + end : contains(at);
    }
    return count;
  }
};

// Returns true if the only position of the window meets the only element of the axis, not padding.
GENESIS_HOST_DEVICE inline bool is_single(const WindowAxis& a) {
  return a.size == 1 && a.taps == 1 && a.positions == 1 && a.begin == 0;
}

struct WindowShape {
  WindowAxis axis[kMaxSpatialAxes];

  GENESIS_HOST_DEVICE int64_t elements() const { return axis[0].size * axis[1].size * axis[2].size; }
  GENESIS_HOST_DEVICE int64_t positions() const {
    return axis[0].positions * axis[1].positions * axis[2].positions;
  }
  GENESIS_HOST_DEVICE int64_t taps() const { return axis[0].taps * axis[1].taps * axis[2].taps; }
};

// The places in memory of the elements of a tensor [batch, channels, ...], or with `last` [batch, ..., channels]. Plane p holds the
// elements of channel p % channels of image p / channels.
struct ChannelPlanes {
  int64_t channels = 1;
  bool last = false;

  GENESIS_HOST_DEVICE int64_t step() const { return last ? channels : 1; }
  // Returns where a plane of `size` elements begins, and where its element i is.
  GENESIS_HOST_DEVICE int64_t first(int64_t plane, int64_t size) const {
    return last ? plane / channels * channels * size + plane % channels : plane * size;
  }
  GENESIS_HOST_DEVICE int64_t at(int64_t plane, int64_t size, int64_t i) const {
    return first(plane, size) + i * step();
  }
  // Return the plane of number `at` in memory, and its place in the plane.
  GENESIS_HOST_DEVICE int64_t plane_of(int64_t at, int64_t size) const {
    return last ? at / channels / size * channels + at % channels : at / size;
  }
  GENESIS_HOST_DEVICE int64_t place_of(int64_t at, int64_t size) const {
    return last ? at / channels % size : at % size;
  }
};

struct ConvolutionShape {
  DType dtype = DType::f32;
  int64_t batch = 1, groups = 1, in_each = 1, out_each = 1;  // channels of x and of the map in one group
  WindowShape windows;
  ConvolutionActivation activation = ConvolutionActivation::kNone;
  bool has_scale = false, has_bias = false, has_addend = false;
  bool channels_last = false;
  bool is_packed = false;  // the weight, see ops::Convolution

  int64_t in() const { return groups * in_each; }
  int64_t out() const { return groups * out_each; }
  ChannelPlanes x_planes() const { return {in(), channels_last}; }
  ChannelPlanes map_planes() const { return {out(), channels_last}; }
  ChannelPlanes weight_planes() const { return {in_each, channels_last}; }
  int64_t depth() const { return in_each * windows.taps(); }  // terms of an element of the map
  int64_t bias_input() const { return 2 + has_scale; }
  int64_t addend_input() const { return 2 + has_scale + has_bias; }
};

struct PoolShape {
  DType dtype = DType::f32;
  int64_t planes = 1;  // batch * channels
  ChannelPlanes layout;
  WindowShape windows;
  bool count_padding = true;  // averages only
};

// Read the geometry of a node of any of the three convolutions, and of any of the four pooling ops.
ConvolutionShape convolution_shape(const KernelQuery& query);
PoolShape pool_shape(const KernelQuery& query);

// For KernelImpl::prepare.
std::shared_ptr<const void> prepare_convolution(const KernelQuery& query);
std::shared_ptr<const void> prepare_pool(const KernelQuery& query);

}  // namespace genesis
