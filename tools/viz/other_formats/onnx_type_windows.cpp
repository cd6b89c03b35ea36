// Rules of operators over spatial windows: convolutions, pooling, padding and resizing. Tensors are [batch, channels,
// space...].
#include <algorithm>
#include <cmath>

#include "tools/viz/other_formats/onnx_type_call.h"

namespace genesis::viz {
namespace {

// Parameters of the windows, by spatial axis.
struct Windows {
  std::vector<int64_t> kernel, strides, dilations, before, after;
  std::string auto_pad;
  bool rounds_up = false;

  bool is_valid(size_t axes) const {
    for (const auto* list : {&kernel, &strides, &dilations, &before, &after})
      if (list->size() != axes) return false;
    const auto is_positive = [](const std::vector<int64_t>& list) {
      return std::ranges::all_of(list,
                                 [](int64_t number) { return number > 0 && number < int64_t{1} << 31; });
    };
    const auto is_small = [](const std::vector<int64_t>& list) {
      return std::ranges::all_of(list, [](int64_t number) { return std::abs(number) < int64_t{1} << 31; });
    };
    return is_positive(kernel) && is_positive(strides) && is_positive(dilations) && is_small(before) &&
           is_small(after);
  }
  bool is_same() const { return auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER"; }
};

Windows windows_of(const OnnxCall& call, const std::vector<int64_t>& kernel) {
  const size_t axes = kernel.size();
  Windows windows{.kernel = kernel, .auto_pad = call.string("auto_pad")};
  const auto list = [&](const char* name, int64_t otherwise) {
    const auto* given = call.integers(name);
    return given ? *given : std::vector<int64_t>(axes, otherwise);
  };
  windows.strides = list("strides", 1);
  windows.dilations = list("dilations", 1);
  std::vector<int64_t> pads(2 * axes, 0);
  if (const auto* given = call.integers("pads"); given && windows.auto_pad != "VALID") pads = *given;
  const auto half = static_cast<std::ptrdiff_t>(pads.size() / 2);
  windows.before.assign(pads.begin(), pads.begin() + half);
  windows.after.assign(pads.begin() + half, pads.end());
  windows.rounds_up = call.integer("ceil_mode", 0) != 0;
  return windows;
}

// Returns the number of windows along an axis. A named size stays the same if the windows neither skip nor cut
// elements.
OnnxDim windows_along(const OnnxDim& dim, const Windows& windows, size_t axis) {
  const int64_t stride = windows.strides[axis],
                span = windows.dilations[axis] * (windows.kernel[axis] - 1) + 1;
  const int64_t padding = windows.before[axis] + windows.after[axis];
  const auto size = size_of(dim);
  if (windows.is_same()) return size ? dim_of((*size - 1) / stride + 1) : stride == 1 ? dim : kUnknownDim;
  if (!size) return stride == 1 && padding == span - 1 ? dim : kUnknownDim;
  const auto room = plus(*size, padding - span);
  if (!room || *room < 0) return kUnknownDim;
  int64_t count = *room / stride + 1;
  // The last window has to begin within the input or the padding before it.
  if (windows.rounds_up && *room % stride != 0 && count * stride < *size + windows.before[axis]) ++count;
  return dim_of(count);
}

OnnxShape space_of(const OnnxShape& x, const Windows& windows) {
  OnnxShape space;
  for (size_t i = 0; i + 2 < x.size(); ++i) space.push_back(windows_along(x[i + 2], windows, i));
  return space;
}

OnnxShape joined(const OnnxDim& batch, const OnnxDim& channels, const OnnxShape& space) {
  OnnxShape shape{batch, channels};
  shape.insert(shape.end(), space.begin(), space.end());
  return shape;
}

// Returns the sizes of a window, from an attribute or else from the weight.
std::optional<std::vector<int64_t>> kernel_of(const OnnxCall& call, size_t weight) {
  if (const auto* given = call.integers("kernel_shape")) return *given;
  const OnnxShape* w = call.shape(weight);
  if (!w || w->size() < 2) return std::nullopt;
  return sizes_of({w->begin() + 2, w->end()});
}

void convolve(OnnxCall& call, size_t weight) {
  const OnnxShape *x = call.shape(0), *w = call.shape(weight);
  if (!x || x->size() < 2) return;
  const OnnxDim channels = w && w->size() == x->size() ? (*w)[0] : kUnknownDim;
  OnnxShape space(x->size() - 2, kUnknownDim);
  if (const auto kernel = kernel_of(call, weight)) {
    const Windows windows = windows_of(call, *kernel);
    if (windows.is_valid(x->size() - 2)) space = space_of(*x, windows);
  }
  call.shape(joined((*x)[0], channels, space));
}

void conv(OnnxCall& call) {
  call.type_like(0);
  convolve(call, 1);
}

void conv_integer(OnnxCall& call) {
  call.type(onnx_element_type(6));
  convolve(call, 1);
}

// The inputs are x with its scale and zero point, then the weight with its own, then scale and zero point of the
// result.
void quantized_conv(OnnxCall& call) {
  call.type_like(7);
  convolve(call, 3);
}

OnnxDim transposed_along(const OnnxDim& dim, const Windows& windows, size_t axis, int64_t more) {
  const auto size = size_of(dim);
  if (!size) return kUnknownDim;
  if (windows.is_same()) return dim_of(times(*size, windows.strides[axis]));
  const int64_t span = windows.dilations[axis] * (windows.kernel[axis] - 1) + 1;
  const auto moved = times(plus(*size, -1), windows.strides[axis]);
  return dim_of(plus(moved, span + more - windows.before[axis] - windows.after[axis]));
}

void conv_transpose(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape *x = call.shape(0), *w = call.shape(1);
  if (!x || x->size() < 2) return;
  const size_t axes = x->size() - 2;
  OnnxShape space(axes, kUnknownDim);
  const auto* said = call.integers("output_shape");
  const auto* more = call.integers("output_padding");
  if (said && said->size() == axes) {
    for (size_t i = 0; i < axes; ++i) space[i] = dim_of((*said)[i]);
  } else if (const auto kernel = kernel_of(call, 1)) {
    const Windows windows = windows_of(call, *kernel);
    for (size_t i = 0; windows.is_valid(axes) && i < axes; ++i)
      space[i] = transposed_along((*x)[i + 2], windows, i, more && more->size() == axes ? (*more)[i] : 0);
  }
  const bool has_weight = w && w->size() == x->size();
  const OnnxDim channels =
      has_weight ? dim_of(times(size_of((*w)[1]), call.integer("group", 1))) : kUnknownDim;
  call.shape(joined((*x)[0], channels, space));
}

void pool(OnnxCall& call) {
  call.type_like(0);
  call.type(i64_type(), 1);
  const OnnxShape* x = call.shape(0);
  const auto* kernel = call.integers("kernel_shape");
  if (!x || x->size() < 2 || !kernel) return;
  const Windows windows = windows_of(call, *kernel);
  if (!windows.is_valid(x->size() - 2)) return;
  const OnnxShape shape = joined((*x)[0], (*x)[1], space_of(*x, windows));
  call.shape(shape);
  call.shape(shape, 1);
}

void global_pool(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape* x = call.shape(0);
  if (x && x->size() >= 2) call.shape(joined((*x)[0], (*x)[1], OnnxShape(x->size() - 2, "1")));
}

void pad(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape* x = call.shape(0);
  if (!x) return;
  const auto pads = call.integers("pads", 1);
  OnnxShape shape(x->size(), kUnknownDim);
  if (pads && pads->size() == 2 * x->size() && !call.has(3))
    for (size_t i = 0; i < x->size(); ++i) {
      const auto more = plus((*pads)[i], (*pads)[i + x->size()]);
      shape[i] = more == 0 ? (*x)[i] : dim_of(plus(size_of((*x)[i]), more));
    }
  call.shape(shape);
}

// "Resize" has the inputs x, region, scales and sizes since version 11. Before, it had x and scales, as "Upsample"
// has.
void resize(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape* x = call.shape(0);
  if (!x) return;
  const bool is_new = call.node.op == "Resize" && (call.opset == 0 || call.opset >= 11);
  const size_t at = is_new ? 2 : 1;
  OnnxShape shape(x->size(), kUnknownDim);
  if (const auto* sizes = call.elements(3); is_new && sizes && sizes->size() == x->size()) {
    shape = as_shape(*sizes);
  } else if (call.has(at) && call.inputs[at]->reals.size() == x->size()) {
    for (size_t i = 0; i < x->size(); ++i) {
      const double scale = call.inputs[at]->reals[i];
      const auto size = size_of((*x)[i]);
      const double scaled = size ? std::floor(static_cast<double>(*size) * scale) : -1;
      shape[i] = scale == 1                     ? (*x)[i]
                 : scaled >= 0 && scaled < 1e15 ? std::to_string(static_cast<int64_t>(scaled))
                                                : kUnknownDim;
    }
  }
  if (call.node.attribute("axes") == nullptr) call.shape(shape);
}

void depth_to_space(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape* x = call.shape(0);
  const int64_t block = call.integer("blocksize", 0);
  if (!x || x->size() != 4 || block <= 0 || block > 1 << 15) return;
  const auto channels = size_of((*x)[1]);
  call.shape({(*x)[0], channels ? dim_of(*channels / (block * block)) : kUnknownDim,
              dim_of(times(size_of((*x)[2]), block)), dim_of(times(size_of((*x)[3]), block))});
}

void space_to_depth(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape* x = call.shape(0);
  const int64_t block = call.integer("blocksize", 0);
  if (!x || x->size() != 4 || block <= 0 || block > 1 << 15) return;
  const auto part = [&](const OnnxDim& dim) {
    return size_of(dim) ? dim_of(*size_of(dim) / block) : kUnknownDim;
  };
  call.shape({(*x)[0], dim_of(times(size_of((*x)[1]), block * block)), part((*x)[2]), part((*x)[3])});
}

constexpr NamedOnnxRule kWindowRules[] = {{"Conv", conv},
                                          {"ConvInteger", conv_integer},
                                          {"QLinearConv", quantized_conv},
                                          {"ConvTranspose", conv_transpose},
                                          {"MaxPool", pool},
                                          {"AveragePool", pool},
                                          {"LpPool", pool},
                                          {"GlobalAveragePool", global_pool},
                                          {"GlobalMaxPool", global_pool},
                                          {"GlobalLpPool", global_pool},
                                          {"Pad", pad},
                                          {"Resize", resize},
                                          {"Upsample", resize},
                                          {"DepthToSpace", depth_to_space},
                                          {"SpaceToDepth", space_to_depth}};

}  // namespace

std::span<const NamedOnnxRule> window_rules() { return kWindowRules; }

}  // namespace genesis::viz
