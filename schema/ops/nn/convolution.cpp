// Rules of the convolutions. With c = convolution, t = convolution_transposed and g = convolution_weight_gradient:
// y = c(x, w): dx = t(dy, w), dw = g(x, dy);  x = t(y, w): dy = c(dx, w), dw = g(dx, y);  w = g(x, y): dx = t(y, dw), dy = c(x, dw).
#include "schema/ops/nn/convolution.h"

#include <algorithm>

#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

// The rank is checked here because the layout says which axes are the window's.
std::vector<int64_t> window_of(std::string_view op, const TensorType& weight, const Windows& windows) {
  if (weight.shape.rank() < 3)
    fail("{} takes a weight [out, in / groups, ...] with 1 to 3 spatial axes, got {}", op,
         weight.to_string());
  return spatial_sizes(weight.shape, windows).sizes();
}

const Dim& channels_of(const TensorType& type, const Windows& windows) {
  return type.shape[windows.channel_axis(type.shape.rank())];
}

// Checks what all three ops require: `image` and `map` [batch, channels, ...] with as many axes as the window, and groups that
// divide both numbers of channels.
void check_operands(std::string_view op, const TensorType& a, const TensorType& b, const Windows& windows,
                    const std::vector<int64_t>& window) {
  if (!is_float(a.dtype) || a.dtype != b.dtype)
    fail("{} takes two operands of one real dtype, got {} and {}", op, a.to_string(), b.to_string());
  if (a.shape.rank() < 3 || a.shape.rank() != b.shape.rank() ||
      a.shape.rank() != static_cast<int>(window.size()) + 2)
    fail(
        "{} takes [batch, channels, ...] and a weight [out, in / groups, ...] with 1 to 3 spatial axes, got "
        "{} and {}",
        op, a.to_string(), b.to_string());
  check_windows(op, windows, window);
}

void check_channels(std::string_view op, const Dim& x, int64_t out, int64_t in_each, int64_t groups) {
  if (groups < 1 || out % groups != 0 || !(x == Dim(checked_mul(in_each, groups))))
    fail("{} in {} groups: {} channels do not go with a weight of {} outputs and {} inputs each", op, groups,
         x.to_string(), out, in_each);
}

void check_vector(const char* what, const TensorType& given, const TensorType& x, const Dim& out) {
  if (!(given.shape == Shape{out}) || (given.dtype != x.dtype && given.dtype != wide_dtype(x.dtype)))
    fail("convolution: {} must be {}[{}], got {}", what, name_of(x.dtype), out.to_string(),
         given.to_string());
}

// Returns the type of the weight before it was packed.
TensorType unpacked(const ops::Convolution& op, const TensorType& weight) {
  const int rank = weight.shape.rank();
  if (rank < 4 || !op.windows.channels_last ||
      !(weight.shape[0] == Dim(op.packed_out / kPackedOut + (op.packed_out % kPackedOut > 0))) ||
      !(weight.shape[rank - 1] == Dim(kPackedOut)))
    fail(
        "convolution: a packed weight of {} outputs is [ceil(out / {}), window..., in / groups, {}] beside "
        "channels at the end, got {}",
        op.packed_out, kPackedOut, kPackedOut, weight.to_string());
  Shape shape = {op.packed_out};
  for (int axis = 1; axis < rank - 1; ++axis) shape.push_back(weight.shape[axis]);
  return {weight.dtype, shape};
}

double flops_of(const TensorType& weight, const TensorType& map) {
  return 2 * static_cast<double>(map.numel()) * static_cast<double>(weight.numel()) /
         static_cast<double>(std::max<int64_t>(1, axis_size(weight, 0)));
}

double product_of_sizes(const Shape& shape) {
  double n = 1;
  for (const Dim& size : shape) n *= static_cast<double>(size.value());
  return n;
}

}  // namespace

namespace ops {

std::vector<TensorType> Convolution::infer(Types in) const {
  const TensorType &x = in[0], weight = packed_out > 0 ? unpacked(*this, in[1]) : in[1];
  const std::vector<int64_t> window = window_of("convolution", weight, windows);
  check_operands("convolution", x, weight, windows, window);
  if (activation > ConvolutionActivation::kGeluTanh && packed_out > 0)
    fail("convolution: a packed weight takes no {}: apply it to the result instead",
         EnumNames<ConvolutionActivation>::names[static_cast<size_t>(activation)]);
  const int64_t out = weight.shape[0].value();
  check_channels("convolution", channels_of(x, windows), out, channels_of(weight, windows).value(), groups);
  if (static_cast<int>(in.size()) != addend_input() + has_addend)
    fail("convolution with these attributes takes {} inputs, got {}", addend_input() + has_addend, in.size());
  if (has_scale) check_vector("the scale", in[2], x, out);
  if (has_bias) check_vector("the bias", in[static_cast<size_t>(bias_input())], x, out);
  const TensorType result{x.dtype, positions_shape(x.shape, out, windows, window)};
  if (has_addend && !(in.back() == result))
    fail("convolution: the addend must be {}, got {}", result.to_string(), in.back().to_string());
  return {result};
}

Cost Convolution::cost(Types in, Types out) const {
  return {bytes_moved(in, out), flops_of(packed_out > 0 ? unpacked(*this, in[1]) : in[1], out[0])};
}
double Convolution::sum_length(Types in, Types) const {
  const TensorType weight = packed_out > 0 ? unpacked(*this, in[1]) : in[1];
  return product_of_sizes(weight.shape) / static_cast<double>(std::max<int64_t>(1, axis_size(weight, 0)));
}

void Convolution::grad(GradientContext& g) const {
  if (activation != ConvolutionActivation::kNone || has_scale || has_addend || packed_out > 0)
    fail(
        "convolution in a form that passes make behind autodiff has no gradient: differentiate the graph it "
        "was "
        "made of");
  const Value x = g.input(0), weight = g.input(1);
  if (g.wants(0))
    g.set(0, convolution_transposed(
                 {.windows = windows, .groups = groups, .sizes = spatial_sizes(x.shape(), windows)}, g.dy(),
                 weight));
  if (g.wants(1))
    g.set(1, emit(ConvolutionWeightGradient{windows, groups, spatial_sizes(weight.shape(), windows).sizes()},
                  {x, g.dy()}));
  if (has_bias && g.wants(2)) {
    std::vector<int64_t> axes;
    for (int axis = 0; axis < x.rank(); ++axis)
      if (axis != windows.channel_axis(x.rank())) axes.push_back(axis);
    g.set(2, sum(g.dy(), axes));
  }
}

std::vector<TensorType> ConvolutionTransposed::infer(Types in) const {
  const TensorType &dy = in[0], &weight = in[1];
  const std::vector<int64_t> window = window_of("convolution_transposed", weight, windows);
  check_operands("convolution_transposed", dy, weight, windows, window);
  if (sizes.rank() != static_cast<int>(window.size()))
    fail("convolution_transposed: sizes {} must name {} spatial axes", sizes.to_string(), window.size());
  const int64_t out = weight.shape[0].value();
  const int64_t in_each = channels_of(weight, windows).value();
  const Dim in_channels = checked_mul(in_each, groups);
  check_channels("convolution_transposed", in_channels, out, in_each, groups);
  const Shape x = in_layout(windows, dy.shape[0], in_channels, sizes);
  if (const Shape map = positions_shape(x, out, windows, window); !(map == dy.shape))
    fail("convolution_transposed: a result {} takes an operand {}, got {}", x.to_string(), map.to_string(),
         dy.shape.to_string());
  return {{dy.dtype, x}};
}

Cost ConvolutionTransposed::cost(Types in, Types out) const {
  return {bytes_moved(in, out), flops_of(in[1], in[0])};
}
double ConvolutionTransposed::sum_length(Types in, Types) const {
  return product_of_sizes(spatial_sizes(in[1].shape, windows)) *
         static_cast<double>(axis_size(in[1], 0) / groups);
}

void ConvolutionTransposed::grad(GradientContext& g) const {
  const Value y = g.input(0), weight = g.input(1);
  if (g.wants(0)) g.set(0, convolution({.windows = windows, .groups = groups}, {g.dy(), weight}));
  if (g.wants(1))
    g.set(1, emit(ConvolutionWeightGradient{windows, groups, spatial_sizes(weight.shape(), windows).sizes()},
                  {g.dy(), y}));
}

std::vector<TensorType> ConvolutionWeightGradient::infer(Types in) const {
  const TensorType &x = in[0], &dy = in[1];
  check_operands("convolution_weight_gradient", x, dy, windows, window);
  const int64_t out = channels_of(dy, windows).value(), channels = channels_of(x, windows).value();
  if (groups < 1 || channels % groups != 0 || out % groups != 0)
    fail("convolution_weight_gradient: {} groups do not divide {} and {} channels", groups, channels, out);
  if (const Shape map = positions_shape(x.shape, out, windows, window); !(map == dy.shape))
    fail("convolution_weight_gradient of x {} takes dy {}, got {}", x.shape.to_string(), map.to_string(),
         dy.shape.to_string());
  return {{x.dtype, in_layout(windows, out, channels / groups, Shape::of(window))}};
}

Cost ConvolutionWeightGradient::cost(Types in, Types out) const {
  return {bytes_moved(in, out), flops_of(out[0], in[1])};
}
double ConvolutionWeightGradient::sum_length(Types in, Types) const {
  return product_of_sizes(spatial_sizes(in[1].shape, windows)) * static_cast<double>(axis_size(in[1], 0));
}

void ConvolutionWeightGradient::grad(GradientContext& g) const {
  const Value x = g.input(0), y = g.input(1);
  if (g.wants(0))
    g.set(0,
          convolution_transposed(
              {.windows = windows, .groups = groups, .sizes = spatial_sizes(x.shape(), windows)}, y, g.dy()));
  if (g.wants(1)) g.set(1, convolution({.windows = windows, .groups = groups}, {x, g.dy()}));
}

}  // namespace ops

std::span<const OpDef* const> convolution_ops() {
  return kOpDefs<ops::Convolution, ops::ConvolutionTransposed, ops::ConvolutionWeightGradient>;
}

Value convolution(ops::Convolution op, const ConvolutionOperands& operands) {
  const auto [x, weight, scale, bias, addend] = operands;
  op.has_scale = bool(scale), op.has_bias = bool(bias), op.has_addend = bool(addend);
  const DType dtype = promote(x.dtype(), weight.dtype());
  std::vector<Value> inputs = {cast(x, dtype), cast(weight, dtype)};
  if (scale) inputs.push_back(scale);
  if (bias) inputs.push_back(bias.dtype() == wide_dtype(dtype) ? bias : cast(bias, dtype));
  if (addend) inputs.push_back(addend);
  return emit(op, inputs);
}

Value packed_weight(Value weight) {
  const auto rank = static_cast<size_t>(weight.rank());
  const int64_t out = weight.dim(0).value(), panels = (out + kPackedOut - 1) / kPackedOut;
  std::vector<int64_t> before(rank, 0), behind(rank, 0);
  behind[0] = panels * kPackedOut - out;
  if (behind[0] > 0) weight = pad(weight, before, behind);
  // [panels, kPackedOut, in, taps] -> [panels, taps, in, kPackedOut]
  Shape result = {panels};
  int64_t taps = 1;
  for (int axis = 2; axis < weight.rank(); ++axis) {
    result.push_back(weight.dim(axis));
    taps *= weight.dim(axis).value();
  }
  const Dim in = weight.dim(1);
  result.push_back(in), result.push_back(kPackedOut);
  if (taps == 1) return reshape(transpose(reshape(weight, {panels, kPackedOut, in})), result);
  return reshape(permute(reshape(weight, {panels, kPackedOut, in, taps}), {0, 3, 2, 1}), result);
}

Value convolution_transposed(const ops::ConvolutionTransposed& op, Value x, Value weight) {
  const DType dtype = promote(x.dtype(), weight.dtype());
  return emit(op, {cast(x, dtype), cast(weight, dtype)});
}

}  // namespace genesis
