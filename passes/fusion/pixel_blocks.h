// Convolutions of pictures, whose few channels fill no pack of a tensor core, over blocks of pixels. Used by channels_last.
#pragma once

#include <optional>
#include <vector>

#include "schema/graph/graph.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {

// Axes of permutes between [batch, channels, ...] and [batch, ..., channels].
inline std::vector<int64_t> axes_to_last(int rank) {
  std::vector<int64_t> axes = {0};
  for (int axis = 2; axis < rank; ++axis) axes.push_back(axis);
  axes.push_back(1);
  return axes;
}
inline std::vector<int64_t> axes_to_first(int rank) {
  std::vector<int64_t> axes = {0, rank - 1};
  for (int axis = 1; axis < rank - 1; ++axis) axes.push_back(axis);
  return axes;
}

// A convolution over few channels whose window moves by a stride of more than one, written over blocks of stride x stride pixels, each
// a pixel with stride^2 times the channels: tensor cores multiply packs of 8 channels, of which colors fill 3, and take longer to
// gather windows that move by more than one. Zeros in front of the window let it begin with a block.
struct PixelBlocks {
  struct Axis {
    int64_t size = 0, taps = 0, positions = 0;  // sizes of the convolution
    int64_t begin = 0;                          // its padding, in pixels

    int64_t in_front(int64_t stride) const { return (stride - begin % stride) % stride; }
    int64_t block_taps(int64_t stride) const { return (taps + in_front(stride) + stride - 1) / stride; }
    int64_t behind(int64_t stride) const { return block_taps(stride) * stride - taps - in_front(stride); }
    int64_t block_begin(int64_t stride) const { return (begin + in_front(stride)) / stride; }
    int64_t block_end(int64_t stride) const {
      return positions - 1 + block_taps(stride) - block_begin(stride) - size / stride;
    }
  };
  static constexpr int64_t kChannels = 4;  // channels of a pixel, the last ones zeros

  int64_t stride = 1, channels = 0, out = 0;
  Axis y, x;

  // Returns nothing if the node is no such convolution, or gradient of its weight.
  static std::optional<PixelBlocks> of(const Graph& graph, const Node& node) {
    const bool is_gradient = is<ops::ConvolutionWeightGradient>(node);
    if (!is_gradient && !is<ops::Convolution>(node)) return std::nullopt;
    const Windows windows = is_gradient
                                ? from_attributes<ops::ConvolutionWeightGradient>(node.attributes).windows
                                : from_attributes<ops::Convolution>(node.attributes).windows;
    const int64_t groups = is_gradient
                               ? from_attributes<ops::ConvolutionWeightGradient>(node.attributes).groups
                               : from_attributes<ops::Convolution>(node.attributes).groups;
    const Shape& from = graph.type(node.inputs[0]).shape;
    const Shape& map = graph.type(is_gradient ? node.inputs[1] : node.outputs[0]).shape;
    const Shape& weight = graph.type(is_gradient ? node.outputs[0] : node.inputs[1]).shape;
    if (groups != 1 || from.rank() != 4 || from[1].value() > kChannels) return std::nullopt;
    PixelBlocks b;
    b.stride = windows.strides[0], b.channels = from[1].value(), b.out = weight[0].value();
    b.y = {from[2].value(), weight[2].value(), map[2].value(), windows.pads_begin[0]};
    b.x = {from[3].value(), weight[3].value(), map[3].value(), windows.pads_begin[1]};
    const auto fits = [&](const Axis& a) {
      return a.size % b.stride == 0 && a.begin >= 0 && a.block_end(b.stride) >= 0;
    };
    if (b.stride == 1 || windows.strides[1] != b.stride || windows.dilations != std::vector<int64_t>{1, 1} ||
        !fits(b.y) || !fits(b.x))
      return std::nullopt;
    return b;
  }

  Windows windows() const {
    return {{1, 1},
            {1, 1},
            {y.block_begin(stride), x.block_begin(stride)},
            {y.block_end(stride), x.block_end(stride)},
            true};
  }
  std::vector<int64_t> window() const { return {y.block_taps(stride), x.block_taps(stride)}; }

  // [n, channels, rows, columns] -> [n, rows / stride, columns / stride, stride^2 * kChannels]
  Value of_pixels(Value v) const {
    v = pad(v, {0, 0, 0, 0}, {0, kChannels - channels, 0, 0});
    const Dim n = v.dim(0), rows = v.dim(2).value() / stride, columns = v.dim(3).value() / stride;
    v = permute(reshape(v, {n, kChannels, rows, stride, columns, stride}), {0, 2, 4, 3, 5, 1});
    return reshape(v, {n, rows, columns, stride * stride * kChannels});
  }
  Value of_weight(Value w) const {
    return of_pixels(
        pad(w, {0, 0, y.in_front(stride), x.in_front(stride)}, {0, 0, y.behind(stride), x.behind(stride)}));
  }
  // The inverse of of_weight() for a gradient.
  Value weight_of(Value w) const {
    const std::vector<int64_t> taps = window();
    w = permute(reshape(w, {out, taps[0], taps[1], stride, stride * kChannels}), {0, 1, 3, 2, 4});
    w = reshape(w, {out, taps[0] * stride, taps[1] * stride, kChannels});
    w = narrow(narrow(w, 1, y.in_front(stride), y.taps), 2, x.in_front(stride), x.taps);
    return permute(narrow(w, 3, 0, channels), axes_to_first(4));
  }
};

}  // namespace genesis::passes
