// Interpolation: resizing along axes, and reading an image at places that are data. torch.nn.functional's interpolate and grid_sample, and what
// ONNX's Resize and GridSample add to them. All have gradients.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis {

// The rules of ONNX's Resize, in its words. https://onnx.ai/onnx/operators/onnx__Resize.html
struct ResizeRules {
  std::string mode = "nearest";  // nearest, linear or cubic
  // half_pixel, pytorch_half_pixel, align_corners, asymmetric, half_pixel_symmetric or tf_crop_and_resize
  std::string coordinates = "half_pixel";
  std::string nearest = "round_prefer_floor";  // or round_prefer_ceil, floor, ceil
  double cubic = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

// One axis of a result: its size, the size of x, how much larger the result is (0: size / input), and the part of x that it covers.
struct ResizedAxis {
  Dim size, input;
  double scale = 0, begin = 0, end = 1;
};

// Returns floor(size * scale), the size of what is resized by a factor. Throws Error if the size is symbolic and the factor no multiple of 1/64.
Dim scaled_size(const Dim& size, double scale);

// Returns x with another size along an axis. x is real; integers are resized by "nearest" only. Throws Error for unknown words of the rules.
// If a size is symbolic, the places in x are computed once it is known; `antialias`, `exclude_outside` and tf_crop_and_resize then throw
// OpenSize, and a run fails where places are taken from an axis that turns out to have no elements.
Value resize_axis(Value x, int axis, const ResizeRules& rules, const ResizedAxis& plan);

// These options say how torch.nn.functional.interpolate resizes the axes behind [batch, channels]. mode: nearest, nearest-exact, linear, bilinear, trilinear,
// or bicubic. scale_factors, one for each axis, replace size / input where they are given.
struct InterpolateOptions {
  std::string mode = "nearest";
  bool align_corners = false, antialias = false;
  std::vector<double> scale_factors = {};
};
Value interpolate(Value x, const std::vector<Dim>& sizes, const InterpolateOptions& options = {});

struct GridSampleOptions {
  std::string mode = "linear";    // linear, nearest or cubic
  std::string padding = "zeros";  // zeros, border or reflection
  bool align_corners = false;
};
// x [batch, channels, sizes...] with known sizes, grid [batch, places..., axes] in [-1, 1], the last axis of x first
// (torch.nn.functional.grid_sample) -> [batch, channels, places...].
Value grid_sample(Value x, Value grid, const GridSampleOptions& options = {});

}  // namespace genesis
