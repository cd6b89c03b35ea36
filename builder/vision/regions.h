// Reads images at places that are data, with bilinear interpolation: torchvision.ops.roi_align and deform_conv2d. Both are compositions of
// ops with their gradients, which reach boxes, offsets and masks, too.
//
//     const Value parts = roi_align(features, boxes, images, {.height = 7, .width = 7, .scale = 1.0 / 16, .samples = 2});
#pragma once

#include <array>
#include <optional>

#include "schema/graph/graph.h"

namespace genesis {

struct RoiAlignOptions {
  int64_t height = 1, width = 1;  // bins of a region
  double scale = 1;               // pixels of x for each unit of a box
  int64_t samples = 1;            // along each axis of a bin
  bool aligned =
      true;  // pixels have their values at half places; else regions have at least one pixel along each axis
  bool takes_max =
      false;  // a bin is the greatest weighted corner of its samples (ONNX's mode max), else their mean
};
// x [batch, channels, height, width] with known height and width, both real; boxes [regions, 4] as x1, y1, x2, y2; images [regions], the
// batch entry of each region -> [regions, channels, options.height, options.width]. Samples more than a pixel outside of the image are 0.
// Throws Error for less than one sample: torchvision's -1 takes a number of samples that depends on data.
Value roi_align(Value x, Value boxes, Value images, const RoiAlignOptions& options);

struct DeformConvOptions {
  std::array<int64_t, 2> stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1, offset_groups = 1;  // groups of channels with weights, and with offsets, of their own
  std::optional<std::array<int64_t, 2>> end_padding = {};  // behind rows and columns; empty: as before them
};
// A convolution each tap of which reads x at its place plus an offset. x [batch, channels, height, width] with known height and width; weight
// [out channels, channels / groups, window...]; offset [batch, offset_groups * taps * 2, rows, columns], the y and the x of each tap; bias
// [out channels] or empty; mask [batch, offset_groups * taps, rows, columns] scales the taps, or empty -> [batch, out channels, rows, columns].
// Throws Error if rows and columns are known and not those of the convolution.
Value deform_conv2d(Value x, Value offset, Value weight, Value bias = {}, Value mask = {},
                    const DeformConvOptions& options = {});

}  // namespace genesis
