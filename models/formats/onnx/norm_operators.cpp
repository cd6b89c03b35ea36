// Normalizations.
#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/norm.h"

namespace genesis::models::onnx {
namespace {

// A parameter with one number for each channel (axis 1 of x).
Value by_channel(Value x, Value parameter) {
  Shape shape(std::vector<Dim>(static_cast<size_t>(x.rank()) - 1, Dim(1)));
  shape[0] = x.dim(1);
  return reshape(parameter, shape);
}
AxisList axes_but(Value x, int64_t first, int64_t skipped) {
  Axes axes;
  for (int64_t axis = first; axis < x.rank(); ++axis)
    if (axis != skipped) axes.push_back(axis);
  return axes;
}

Results normalized_batch(Call& call) {
  const Value x = call.tensor(0), scale = call.tensor(1), bias = call.tensor(2), mean_before = call.buffer(3),
              variance_before = call.buffer(4);
  const double epsilon = call.real("epsilon", 1e-5), momentum = call.real("momentum", 0.9);
  const bool trains = call.attribute("training_mode", 0) != 0;
  call.accept_any("spatial"), call.accept_any("is_test"), call.accept_any("consumed_inputs");
  if (x.rank() < 2) fail("it normalizes {}: expected [batch, channels, ...]", x.type().to_string());
  Value average = mean_before, variance = variance_before;
  if (trains) {
    average = mean(x, axes_but(x, 0, 1));
    variance = var(x, axes_but(x, 0, 1), 0);
  }
  const Value factor = scale * rsqrt(cast(variance, scale.dtype()) + epsilon);
  const Value y = (x - by_channel(x, cast(average, x.dtype()))) * by_channel(x, cast(factor, x.dtype())) +
                  by_channel(x, cast(bias, x.dtype()));
  Results results = {item_of(cast(y, x.dtype()))};
  if (!trains) return results;
  const auto moved = [&](Value before, Value now) {
    return item_of(before * momentum + cast(now, before.dtype()) * (1 - momentum));
  };
  results.push_back(moved(mean_before, average));
  results.push_back(moved(variance_before, variance));
  return results;
}

// Normalizes all axes but the first of [rows, ...].
Value normalized_rows(Value x, const Shape& rows, double epsilon) {
  return reshape(layer_norm(reshape(x, rows), {}, {}, epsilon, 1), x.shape());
}
Dim length_of_image(Value x) {
  Dim length = 1;
  for (int axis = 2; axis < x.rank(); ++axis) length = length * x.dim(axis);
  return length;
}
Value normalized_instance(Call& call) {
  const Value x = call.tensor(0);
  const Value y = normalized_rows(x, {x.dim(0), x.dim(1), length_of_image(x)}, call.real("epsilon", 1e-5));
  call.accept_any("consumed_inputs");
  return y * by_channel(x, call.tensor(1)) + by_channel(x, call.tensor(2));
}
Value normalized_groups(Call& call) {
  const Value x = call.tensor(0);
  Value scale = call.tensor(1), bias = call.tensor(2);
  const int64_t groups = call.attribute("num_groups", 1);
  const auto each = x.dim(1).divide_exact(groups);
  if (!each) fail("{} channels are not divided into {} groups", x.dim(1).to_string(), groups);
  call.accept_any("stash_type");  // statistics are computed in f32 at least
  const Value y =
      normalized_rows(x, {x.dim(0), groups, *each * length_of_image(x)}, call.real("epsilon", 1e-5));
  if (call.version() < 21) {
    scale = repeat_interleave(scale, each->value(), 0);
    bias = repeat_interleave(bias, each->value(), 0);
  }
  return y * by_channel(x, scale) + by_channel(x, bias);
}

Results normalized_layer(Call& call) {
  const Value x = call.tensor(0);
  const int axis = normalize_axis(call.attribute("axis", -1), x.rank());
  const double epsilon = call.real("epsilon", 1e-5);
  call.accept_any("stash_type");
  const Value scale = call.tensor(1), bias = call.tensor_or(2, {});
  Shape rest(std::vector<Dim>(x.shape().begin() + axis, x.shape().end()));
  const bool is_plain =
      scale.shape() == rest && (!bias || bias.shape() == rest) && scale.dtype() == x.dtype();
  Value y;
  if (is_plain) {
    y = layer_norm(x, scale, bias, epsilon, x.rank() - axis);
  } else {
    y = cast(layer_norm(x, {}, {}, epsilon, x.rank() - axis), scale.dtype()) * scale;
    if (bias) y = y + bias;
  }
  Results results = {item_of(y)};
  if (!call.wants(1) && !call.wants(2)) return results;
  const Value wide = x.dtype() == DType::f64 ? x : cast(x, DType::f32);
  const AxisList axes = axes_but(x, axis, -1);
  results.push_back(item_of(mean(wide, axes, true)));
  results.push_back(item_of(rsqrt(var(wide, axes, 0, true) + epsilon)));
  return results;
}
Value normalized_by_root(Call& call) {
  const Value x = call.tensor(0), scale = call.tensor(1);
  const int axis = normalize_axis(call.attribute("axis", -1), x.rank());
  const double epsilon = call.real("epsilon", 1e-5);
  call.accept_any("stash_type");
  Shape rest(std::vector<Dim>(x.shape().begin() + axis, x.shape().end()));
  if (scale.shape() == rest && scale.dtype() == x.dtype())
    return rms_norm(x, scale, epsilon, x.rank() - axis);
  return cast(rms_norm(x, {}, epsilon, x.rank() - axis), scale.dtype()) * scale;
}

Value of_unit_length(Call& call) {
  const Value x = call.tensor(0);
  const int axis = normalize_axis(call.attribute("axis", -1), x.rank());
  const int64_t p = call.attribute("p", 2);
  if (p != 1 && p != 2) fail("a norm of order {} is not read: expected 1 or 2", p);
  const Value length = p == 1 ? sum(abs(x), axis, true) : sqrt(sum(square(x), axis, true));
  return where(length == 0.0, Scalar(0.0), x / where(length == 0.0, Scalar(1.0), length));
}
Value of_mean_and_variance(Call& call) {
  const Value x = call.tensor(0);
  const AxisList axes(call.list("axes", {0, 2, 3}));
  const Value average = mean(x, axes, true), spread = sqrt(mean(square(x), axes, true) - square(average));
  return (x - average) / (spread + 1e-9);
}
// x / (bias + alpha / size * the sum of squares of the channels around)^beta
Value local_response(Call& call) {
  const Value x = call.tensor(0);
  const int64_t size = call.attribute("size", 1), before = (size - 1) / 2, after = size - 1 - before;
  const double alpha = call.real("alpha", 0.0001), beta = call.real("beta", 0.75),
               bias = call.real("bias", 1);
  std::vector<int64_t> left(static_cast<size_t>(x.rank())), right = left;
  left.at(1) = before, right.at(1) = after;
  if (size < 1 || size > 4096) fail("its size is {}", size);
  const Value squares = pad(square(x), left, right);
  Value total;
  for (int64_t i = 0; i < size; ++i) {
    const Value one = narrow(squares, 1, i, x.dim(1));
    total = total ? total + one : one;
  }
  return x / pow(total * (alpha / static_cast<double>(size)) + bias, beta);
}

}  // namespace

const Operators& norm_operators() {
  static const Operators kOperators = {
      {"BatchNormalization", normalized_batch},
      {"GroupNormalization", one<normalized_groups>},
      {"InstanceNormalization", one<normalized_instance>},
      {"LRN", one<local_response>},
      {"LayerNormalization", normalized_layer},
      {"LpNormalization", one<of_unit_length>},
      {"MeanVarianceNormalization", one<of_mean_and_variance>},
      {"RMSNormalization", one<normalized_by_root>},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
