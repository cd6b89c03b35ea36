// Rules of batch_norm and its gradient.
#include "schema/ops/nn/batch_norm.h"

#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::ops {
namespace {

int channel_axis(const Shape& x, bool channels_last) { return channels_last ? x.rank() - 1 : 1; }

// Checks x and the vectors of its channels, and returns their type when they are results.
template <class Op>
TensorType check_operands(const Op& op, Types in, size_t expected, size_t first_vector, size_t vectors) {
  const std::string_view name = Op::info.name;
  const TensorType& x = in[0];
  if (!is_float(x.dtype) || x.shape.rank() < 2)
    fail("{} takes real numbers [batch, channels, ...], got {}", name, x.to_string());
  if (in.size() != expected)
    fail("{} with these attributes takes {} inputs, got {}", name, expected, in.size());
  const TensorType wide{wide_dtype(x.dtype), {x.shape[channel_axis(x.shape, op.channels_last)]}};
  for (size_t i = first_vector; i < first_vector + vectors; ++i)
    if (!(in[i].shape == wide.shape) || (in[i].dtype != x.dtype && in[i].dtype != wide.dtype))
      fail("{} of x {} takes vectors {}, got {}", name, x.to_string(), wide.to_string(), in[i].to_string());
  return wide;
}

void check_like_x(std::string_view name, const TensorType& x, const TensorType& other) {
  if (!(other == x))
    fail("{} of x {} takes an operand like x, got {}", name, x.to_string(), other.to_string());
}

// The numbers of a channel.
Dim count_of(const Shape& x, bool channels_last) {
  Dim count = 1;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis != channel_axis(x, channels_last)) count = count * x[axis];
  return count;
}

double numbers_of(const Shape& x, bool channels_last) {
  const auto count = count_of(x, channels_last).constant();
  return count ? static_cast<double>(*count) : 1;
}

// Adds to dx the gradients that pass through mean and variance: dmean / n + dvar * 2 (x - mean) / n.
Value through_statistics(GradientContext& g, const BatchNorm& op, Value dx) {
  if (!g.dy(1) && !g.dy(2)) return dx;
  const Value x = g.input(0), mean = g.output(1);
  Shape shape(std::vector<Dim>(static_cast<size_t>(x.rank()), Dim(1)));
  const int axis = channel_axis(x.shape(), op.channels_last);
  shape[axis] = x.dim(axis);
  const auto by_channel = [&](Value v) { return reshape(v, shape); };
  const Value n = dim_value(g.graph(), count_of(x.shape(), op.channels_last), mean.dtype());
  Value sum = cast(dx, mean.dtype());
  if (g.dy(1)) sum = sum + by_channel(g.dy(1) / n);
  if (g.dy(2)) sum = sum + by_channel(g.dy(2) * 2.0 / n) * (cast(x, mean.dtype()) - by_channel(mean));
  return cast(sum, x.dtype());
}

}  // namespace

std::vector<TensorType> BatchNorm::infer(Types in) const {
  const TensorType wide = check_operands(*this, in, 3u + has_addend, 1, 2);
  if (has_addend) check_like_x(info.name, in[0], in[3]);
  return {in[0], wide, wide};
}

double BatchNorm::sum_length(Types in, Types) const { return numbers_of(in[0].shape, channels_last); }

void BatchNorm::grad(GradientContext& g) const {
  const Value y = g.output(), dy = g.dy() ? g.dy() : zeros(g.graph(), y.shape(), y.dtype());
  std::vector<Value> inputs = {g.input(0), dy, g.output(1), g.output(2), g.input(1)};
  if (relu) inputs.push_back(has_addend ? y : g.input(2));
  const auto d = emit_node(BatchNormGrad{eps, relu, has_addend, channels_last, false, false}, inputs);
  g.set(0, through_statistics(g, *this, d[0]));
  g.set(1, d[1]);
  g.set(2, d[2]);
  if (has_addend) g.set(3, relu ? d[3] : dy);
}

std::vector<TensorType> BatchNormGrad::infer(Types in) const {
  const bool has_bias = relu && !has_addend, has_y = relu && has_addend;
  if (two_gradients && !has_y) fail("{}: two_gradients needs relu and has_addend", info.name);
  if (with_output && !has_bias) fail("{}: with_output needs relu and no has_addend", info.name);
  const TensorType wide = check_operands(*this, in, 5u + relu + two_gradients, 2, 3u + has_bias);
  check_like_x(info.name, in[0], in[1]);
  if (has_y) check_like_x(info.name, in[0], in[5]);
  if (two_gradients) check_like_x(info.name, in[0], in[6]);
  std::vector<TensorType> out = {in[0], wide, wide};
  if (has_y || with_output) out.push_back(in[0]);
  return out;
}

double BatchNormGrad::sum_length(Types in, Types) const { return numbers_of(in[0].shape, channels_last); }

}  // namespace genesis::ops

namespace genesis {

std::span<const OpDef* const> batch_norm_ops() { return kOpDefs<ops::BatchNorm, ops::BatchNormGrad>; }

}  // namespace genesis
