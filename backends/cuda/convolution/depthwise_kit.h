// The problem of depthwise convolutions with the channels last, for depthwise.cu and depthwise_gradient.cu.
#pragma once

#include <limits>

#include "backends/cuda/convolution/window_epilogue.h"
#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/words.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/core/checked_size.h"

#ifdef __CUDACC__

namespace genesis::cuda::depthwise {

constexpr int kMaxBytes = 128;  // bytes of a pixel, side by side, that a block computes

template <class T>
struct Depthwise {
  using Element = T;
  int rows, width;  // sizes of x, or of dy in a transposed convolution
  int out_rows, out_width;
  int begin_y, begin_x, taps_y;
  int packs, block_packs, lines;  // packs of a pixel and of a block; a block's strips at a time
  bool flipped;                   // the window is read from its end
  int strips;                     // strips of all images
  Divisor by_across, by_rows;     // strips of a row, rows of an image
  const void* x;
  const T* weight;  // [channels, taps]
  void* y;
  ChannelNumbers<T> scale, bias;
  const void* addend;
  ConvolutionActivation activation;
  bool weight_is_independent;  // see launch.h
};

// Returns why the kernel does not run the node, whose positions are the outputs: the windows of a transposed convolution are those of
// a convolution by the flipped window.
inline std::optional<std::string> declines(const KernelQuery& query, bool transposed) {
  const ConvolutionShape s = convolution_shape(query);
  const auto& [z, y, x] = s.windows.axis;
  if (!s.channels_last || s.dtype == DType::f64) return "takes channels behind the spatial axes";
  if (s.in_each != 1 || s.out_each != 1 || s.groups % (16 / static_cast<int64_t>(size_of(s.dtype))) != 0)
    return "takes one channel for each group, and channels that fill 16 bytes";
  if (!is_single(z)) return "takes two spatial axes";
  if (y.dilation != 1 || x.dilation != 1 || y.stride != x.stride || x.stride > (transposed ? 1 : 2))
    return "takes no dilation, and equal strides of 1 or 2, transposed of 1";
  if (x.taps != 3 && x.taps != 5 && x.taps != 7) return "takes windows 3, 5 or 7 wide";
  if (y.taps > 7) return "takes windows at most 7 high";
  const int64_t most = std::numeric_limits<int32_t>::max();
  if (s.batch * s.groups == 0 || s.windows.elements() * s.windows.positions() == 0)
    return "takes tensors with elements";
  if (checked_mul(s.batch * s.groups, std::max(s.windows.elements(), s.windows.positions())) > most)
    return "takes fewer than 2^31 elements";
  return std::nullopt;
}

// `channels` and `strip`: channels and neighbors of a row that a thread computes.
template <class T>
Depthwise<T> depthwise_sizes(const ConvolutionShape& s, bool transposed, int channels, int strip) {
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  const auto& [z, y, x] = s.windows.axis;
  Depthwise<T> d{};
  d.rows = number(transposed ? y.positions : y.size), d.width = number(transposed ? x.positions : x.size);
  d.out_rows = number(transposed ? y.size : y.positions);
  d.out_width = number(transposed ? x.size : x.positions);
  d.begin_y = number(transposed ? y.taps - 1 - y.begin : y.begin);
  d.begin_x = number(transposed ? x.taps - 1 - x.begin : x.begin);
  d.taps_y = number(y.taps);
  d.packs = number(s.groups / channels);
  d.block_packs = number(
      blocks_for(d.packs, blocks_for(d.packs, kMaxBytes / (channels * static_cast<int64_t>(sizeof(T))))));
  d.lines = kThreads / d.block_packs;
  d.flipped = transposed;
  const int64_t across = blocks_for(d.out_width, strip);
  d.strips = number(s.batch * d.out_rows * across);
  d.by_across = make_divisor(across), d.by_rows = make_divisor(d.out_rows);
  return d;
}

template <int stride, class Problem>
void launch_by_taps(const KernelContext& c, const Problem& problem, int64_t taps) {
  if (taps == 3) Problem::template launch<3, stride>(c, problem);
  if (taps == 5) Problem::template launch<5, stride>(c, problem);
  if (taps == 7) Problem::template launch<7, stride>(c, problem);
}

}  // namespace genesis::cuda::depthwise

#endif
