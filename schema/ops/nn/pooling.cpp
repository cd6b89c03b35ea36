// Rules of pooling.
#include "schema/ops/nn/pooling.h"

#include "schema/core/error.h"
#include "schema/ops/gradient.h"

namespace genesis::ops {
namespace {

double elements_of(const std::vector<int64_t>& window) {
  double n = 1;
  for (const int64_t size : window) n *= static_cast<double>(size);
  return n;
}

TensorType pooled(std::string_view op, const TensorType& x, const Windows& windows,
                  const std::vector<int64_t>& window, bool ceil_mode) {
  if (!is_float(x.dtype)) fail("{} takes real numbers, got {}", op, x.to_string());
  if (x.shape.rank() != static_cast<int>(window.size()) + 2)
    fail("{} with a window of {} axes takes [batch, channels, ...] with as many spatial axes, got {}", op,
         window.size(), x.to_string());
  check_windows(op, windows, window);
  for (size_t i = 0; i < window.size(); ++i)
    if (windows.pads_begin[i] > windows.dilations[i] * (window[i] - 1))
      fail("{}: a padding of {} holds a whole window of {}", op, windows.pads_begin[i], window[i]);
  return {x.dtype, positions_shape(x.shape, x.shape[windows.channel_axis(x.shape.rank())], windows, window,
                                   ceil_mode)};
}

}  // namespace

std::vector<TensorType> MaxPool::infer(Types in) const {
  return {pooled("max_pool", in[0], windows, window, ceil_mode)};
}
void MaxPool::grad(GradientContext& g) const {
  g.set(0, emit(MaxPoolGrad{windows, window, ceil_mode}, {g.input(0), g.dy()}));
}

std::vector<TensorType> MaxPoolGrad::infer(Types in) const {
  if (const TensorType y = pooled("max_pool_grad", in[0], windows, window, ceil_mode); !(y == in[1]))
    fail("max_pool_grad of x {} takes dy {}, got {}", in[0].to_string(), y.to_string(), in[1].to_string());
  return {in[0]};
}
double MaxPoolGrad::sum_length(Types, Types) const { return elements_of(window); }

std::vector<TensorType> AveragePool::infer(Types in) const {
  return {pooled("average_pool", in[0], windows, window, ceil_mode)};
}
double AveragePool::sum_length(Types, Types) const { return elements_of(window); }
void AveragePool::grad(GradientContext& g) const {
  const Shape& x = g.input(0).shape();
  g.set(0, emit(AveragePoolGrad{windows, window, ceil_mode, count_padding, spatial_sizes(x, windows)},
                {g.dy()}));
}

std::vector<TensorType> AveragePoolGrad::infer(Types in) const {
  if (in[0].shape.rank() < 2)
    fail("average_pool_grad takes [batch, channels, ...], got {}", in[0].to_string());
  const Shape& dy = in[0].shape;
  const TensorType x{in[0].dtype, in_layout(windows, dy[0], dy[windows.channel_axis(dy.rank())], sizes)};
  if (const TensorType y = pooled("average_pool_grad", x, windows, window, ceil_mode); !(y == in[0]))
    fail("average_pool_grad to {} takes dy {}, got {}", x.to_string(), y.to_string(), in[0].to_string());
  return {x};
}
double AveragePoolGrad::sum_length(Types, Types) const { return elements_of(window); }
void AveragePoolGrad::grad(GradientContext& g) const {
  g.set(0, emit(AveragePool{windows, window, ceil_mode, count_padding}, {g.dy()}));
}

}  // namespace genesis::ops

namespace genesis {

std::span<const OpDef* const> pooling_ops() {
  return kOpDefs<ops::MaxPool, ops::MaxPoolGrad, ops::AveragePool, ops::AveragePoolGrad>;
}

}  // namespace genesis
