#include "backends/common/window_shape.h"

namespace genesis {
namespace {

int64_t size_at(const TensorType& type, size_t axis) { return type.shape[static_cast<int>(axis)].value(); }
int64_t channels_of(const TensorType& type, const Windows& windows) {
  return type.shape[windows.channel_axis(type.shape.rank())].value();
}

// x and map are in the layout of `windows`; the sizes of the window are those of `window`.
WindowShape window_shape(const Windows& windows, std::span<const int64_t> window, const TensorType& x,
                         const TensorType& map) {
  WindowShape shape;
  const auto first = static_cast<size_t>(windows.first_spatial_axis());
  for (size_t i = 0; i < window.size(); ++i)
    shape.axis[kMaxSpatialAxes - window.size() + i] = {
        size_at(x, i + first), size_at(map, i + first), window[i],          windows.strides[i],
        windows.dilations[i],  windows.pads_begin[i],   windows.pads_end[i]};
  return shape;
}

ConvolutionShape shape_of(const Windows& windows, int64_t groups, const TensorType& x,
                          const TensorType& weight, const TensorType& map) {
  const std::vector<int64_t> window = spatial_sizes(weight.shape, windows).sizes();
  return {.dtype = x.dtype,
          .batch = size_at(x, 0),
          .groups = groups,
          .in_each = channels_of(weight, windows),
          .out_each = size_at(weight, 0) / groups,
          .windows = window_shape(windows, window, x, map),
          .channels_last = windows.channels_last};
}

template <class Op>
PoolShape pool_of(const Op& op, const TensorType& x, const TensorType& y) {
  PoolShape shape{.dtype = x.dtype,
                  .planes = size_at(x, 0) * channels_of(x, op.windows),
                  .layout = {channels_of(x, op.windows), op.windows.channels_last},
                  .windows = window_shape(op.windows, op.window, x, y)};
  if constexpr (requires { op.count_padding; }) shape.count_padding = op.count_padding;
  return shape;
}

}  // namespace

ConvolutionShape convolution_shape(const KernelQuery& q) {
  if (is<ops::ConvolutionTransposed>(q.op)) {
    const auto op = from_attributes<ops::ConvolutionTransposed>(q.attributes);
    return shape_of(op.windows, op.groups, q.outputs[0], q.inputs[1], q.inputs[0]);
  }
  if (is<ops::ConvolutionWeightGradient>(q.op)) {
    const auto op = from_attributes<ops::ConvolutionWeightGradient>(q.attributes);
    return shape_of(op.windows, op.groups, q.inputs[0], q.outputs[0], q.inputs[1]);
  }
  const auto op = from_attributes<ops::Convolution>(q.attributes);
  TensorType weight = q.inputs[1];
  if (op.packed_out > 0) {
    Shape sizes = {op.packed_out};
    for (int axis = 1; axis + 1 < weight.shape.rank(); ++axis) sizes.push_back(weight.shape[axis]);
    weight.shape = sizes;
  }
  ConvolutionShape shape = shape_of(op.windows, op.groups, q.inputs[0], weight, q.outputs[0]);
  shape.is_packed = op.packed_out > 0;
  shape.activation = op.activation;
  shape.has_scale = op.has_scale, shape.has_bias = op.has_bias, shape.has_addend = op.has_addend;
  return shape;
}

PoolShape pool_shape(const KernelQuery& q) {
  if (is<ops::MaxPool>(q.op))
    return pool_of(from_attributes<ops::MaxPool>(q.attributes), q.inputs[0], q.outputs[0]);
  if (is<ops::MaxPoolGrad>(q.op))
    return pool_of(from_attributes<ops::MaxPoolGrad>(q.attributes), q.inputs[0], q.inputs[1]);
  if (is<ops::AveragePool>(q.op))
    return pool_of(from_attributes<ops::AveragePool>(q.attributes), q.inputs[0], q.outputs[0]);
  return pool_of(from_attributes<ops::AveragePoolGrad>(q.attributes), q.outputs[0], q.inputs[0]);
}

std::shared_ptr<const void> prepare_convolution(const KernelQuery& query) {
  return std::make_shared<ConvolutionShape>(convolution_shape(query));
}
std::shared_ptr<const void> prepare_pool(const KernelQuery& query) {
  return std::make_shared<PoolShape>(pool_shape(query));
}

}  // namespace genesis
