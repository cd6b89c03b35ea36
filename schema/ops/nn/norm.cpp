// Rules of layer_norm and rms_norm, and batch_norm(): an op in training, a composition with running statistics.
#include "schema/ops/nn/norm.h"

#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/nn/batch_norm.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis {
namespace {

Shape last_axes(const Shape& shape, int64_t count) {
  return Shape(std::vector<Dim>(shape.end() - static_cast<std::ptrdiff_t>(count), shape.end()));
}

void check_normalized(const TensorType& x, int64_t num_axes) {
  if (!is_float(x.dtype)) fail("normalization needs a floating-point tensor, got {}", x.to_string());
  if (num_axes < 1 || num_axes > x.shape.rank())
    fail("cannot normalize over the last {} axes of {}: it has {}", num_axes, x.shape.to_string(),
         x.shape.rank());
}

void check_affine(const TensorType& x, const TensorType& affine, int64_t num_axes, const char* what) {
  const Shape expected = last_axes(x.shape, num_axes);
  if (!is_float(affine.dtype) || !(affine.shape == expected))
    fail("{} must be a floating-point tensor of shape {} to go with x {}, got {}", what, expected.to_string(),
         x.to_string(), affine.to_string());
}

std::vector<TensorType> infer_norm(Types in, int64_t num_axes, bool has_weight, bool has_bias) {
  check_normalized(in[0], num_axes);
  const size_t expected = 1u + has_weight + has_bias;
  if (in.size() != expected) fail("the attributes ask for {} inputs, {} were given", expected, in.size());
  if (has_weight) check_affine(in[0], in[1], num_axes, "weight");
  if (has_bias) check_affine(in[0], in[has_weight ? 2 : 1], num_axes, "bias");
  return {in[0]};
}

template <class Op>
bool has_bias(const Op& op) {
  if constexpr (requires { op.has_bias; }) return op.has_bias;
  return false;
}

template <class Op>
std::vector<TensorType> infer_norm_grad(Types in, const Op& op, int affine_gradients) {
  check_normalized(in[0], op.num_axes);
  if (!(in[0] == in[1]))
    fail("x and dy must have one type, got {} and {}", in[0].to_string(), in[1].to_string());
  const bool bias = has_bias(op);
  const size_t expected = 2u + op.has_weight + bias + op.has_residual;
  if (in.size() != expected) fail("the attributes ask for {} inputs, {} were given", expected, in.size());
  if (op.has_weight) check_affine(in[0], in[2], op.num_axes, "weight");
  if (bias) check_affine(in[0], in[op.has_weight ? 3 : 2], op.num_axes, "bias");
  if (op.has_residual && !(in.back() == in[0]))
    fail("residual must be {} like x, got {}", in[0].to_string(), in.back().to_string());
  std::vector<TensorType> out = {in[0]};
  for (int i = 0; i < affine_gradients; ++i)
    out.push_back({wide_dtype(in[0].dtype), last_axes(in[0].shape, op.num_axes)});
  if (op.with_output) out.push_back(in[0]);
  return out;
}

// Returns x, dy, [weight].
std::vector<Value> grad_inputs(GradientContext& g, bool has_weight) {
  std::vector<Value> inputs = {g.input(0), g.dy()};
  if (has_weight) inputs.push_back(g.input(1));
  return inputs;
}

}  // namespace

namespace ops {

std::vector<TensorType> LayerNorm::infer(Types in) const {
  return infer_norm(in, num_axes, has_weight, has_bias);
}
std::vector<TensorType> RmsNorm::infer(Types in) const { return infer_norm(in, num_axes, has_weight, false); }
std::vector<TensorType> LayerNormGrad::infer(Types in) const {
  return infer_norm_grad(in, *this, want_weight + want_bias);
}
std::vector<TensorType> RmsNormGrad::infer(Types in) const { return infer_norm_grad(in, *this, want_weight); }

void LayerNorm::grad(GradientContext& g) const {
  LayerNormGrad op{.eps = eps, .num_axes = num_axes, .has_weight = has_weight};
  const int bias = has_weight ? 2 : 1;
  op.want_weight = has_weight && g.wants(1);
  op.want_bias = has_bias && g.wants(bias);
  const auto dx = emit_node(op, grad_inputs(g, has_weight));
  g.set(0, dx[0]);
  if (op.want_weight) g.set(1, dx[1]);
  if (op.want_bias) g.set(bias, dx.back());
}

void RmsNorm::grad(GradientContext& g) const {
  RmsNormGrad op{.eps = eps, .num_axes = num_axes, .has_weight = has_weight};
  op.want_weight = has_weight && g.wants(1);
  const auto dx = emit_node(op, grad_inputs(g, has_weight));
  g.set(0, dx[0]);
  if (op.want_weight) g.set(1, dx[1]);
}

}  // namespace ops

std::span<const OpDef* const> norm_ops() {
  return kOpDefs<ops::LayerNorm, ops::RmsNorm, ops::LayerNormGrad, ops::RmsNormGrad>;
}

Value layer_norm(Value x, Value weight, Value bias, double eps, int64_t num_axes) {
  ops::LayerNorm op{.eps = eps, .has_weight = bool(weight), .has_bias = bool(bias)};
  op.num_axes = num_axes > 0 ? num_axes : weight ? weight.rank() : bias ? bias.rank() : 1;
  std::vector<Value> inputs = {x};
  if (weight) inputs.push_back(weight);
  if (bias) inputs.push_back(bias);
  return emit(op, inputs);
}

Value rms_norm(Value x, Value weight, double eps, int64_t num_axes) {
  ops::RmsNorm op{.eps = eps, .has_weight = bool(weight)};
  op.num_axes = num_axes > 0 ? num_axes : weight ? weight.rank() : 1;
  std::vector<Value> inputs = {x};
  if (weight) inputs.push_back(weight);
  return emit(op, inputs);
}

namespace {

void check_batch_norm(Value x, std::initializer_list<std::pair<const char*, Value>> vectors) {
  if (x.rank() < 2) fail("batch_norm needs x [N, C, ...], got {}", x.shape().to_string());
  if (!is_float(x.dtype())) fail("batch_norm needs a floating-point tensor, got {}", x.type().to_string());
  for (const auto& [name, value] : vectors)
    if (value && !(value.shape() == Shape{x.dim(1)}))
      fail("batch_norm: {} must have shape [{}] to go with x {}, got {}", name, x.dim(1).to_string(),
           x.shape().to_string(), value.shape().to_string());
}

// Returns the number of elements per channel: N * the sizes after C.
Dim channel_count(Value x) {
  Dim count = x.dim(0);
  for (int i = 2; i < x.rank(); ++i) count = count * x.dim(i);
  return count;
}

// Converts a variance over count to the variance over count - 1.
Value unbiased(Value var, const Dim& count) {
  if (const auto n = count.constant()) {
    if (*n == 1) fail("batch_norm: training needs more than one value per channel");
    return var * (static_cast<double>(*n) / static_cast<double>(*n - 1));
  }
  // A single value has the variance 0. Dividing by 1 instead of n - 1 keeps it 0; a NaN would stay in the running statistics.
  const Value n = dim_value(*var.graph, count, var.dtype());
  return var * (n / maximum(n - 1.0, 1.0));
}

Value moved(Value running, Value batch, double momentum) {
  const Value now = cast(reshape(batch, running.shape()), running.dtype());
  return running * (1 - momentum) + now * momentum;
}

}  // namespace

BatchNormResult batch_norm(Value x, Value weight, Value bias, Value running_mean, Value running_var,
                           bool training, double momentum, double eps) {
  check_batch_norm(
      x, {{"weight", weight}, {"bias", bias}, {"running_mean", running_mean}, {"running_var", running_var}});
  const DType wide = wide_dtype(x.dtype());
  const auto vector = [&](Value given, double otherwise) {
    return given ? cast(given, wide) : full(*x.graph, {x.dim(1)}, otherwise, wide);
  };
  BatchNormResult result{.y = {}, .running_mean = running_mean, .running_var = running_var};
  if (training) {
    const auto made = emit_node(ops::BatchNorm{.eps = eps}, {x, vector(weight, 1), vector(bias, 0)});
    result.y = made[0];
    if (running_mean) result.running_mean = moved(running_mean, made[1], momentum);
    const Value var = unbiased(made[2], channel_count(x));
    if (running_var) result.running_var = moved(running_var, var, momentum);
    return result;
  }
  if (!running_mean || !running_var) fail("batch_norm: evaluation needs running_mean and running_var");
  Shape channels = {x.dim(1)};
  for (int i = 2; i < x.rank(); ++i) channels.push_back(1);
  const auto per_channel = [&](Value v) { return cast(reshape(v, channels), wide); };
  Value y = (cast(x, wide) - per_channel(running_mean)) * rsqrt(per_channel(running_var) + eps);
  if (weight) y = y * per_channel(weight);
  if (bias) y = y + per_channel(bias);
  result.y = cast(y, x.dtype());
  return result;
}

}  // namespace genesis
