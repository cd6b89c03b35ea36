#include "schema/ops/nn/matmul.h"

#include <cmath>
#include <numbers>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis {
namespace {

void check_dtypes(std::string_view what, DType a, DType b) {
  if (a == DType::boolean || b == DType::boolean)
    fail("{} of bool operands: cast them to a number first", what);
  if (a != b)
    fail("{} of {} and {}: operands must have the same dtype, cast one", what, name_of(a), name_of(b));
}

Shape leading_axes(const Shape& shape, int kept_out) {
  return Shape(std::vector<Dim>(shape.begin(), shape.end() - kept_out));
}

// [..., n] as [rows, n].
Value as_rows(Value x) { return reshape(x, {leading_axes(x.shape(), 1).numel(), x.dim(-1)}); }

void check_addend(std::string_view what, const TensorType& addend, const TensorType& result) {
  if (!(addend == result))
    fail("{}: addend must be {} as the result is, got {}", what, result.to_string(), addend.to_string());
}

bool is_all_ones(const Shape& shape) { return shape.numel() == Dim(1); }

}  // namespace

namespace ops {

std::vector<TensorType> Matmul::infer(Types in) const {
  const Shape &a = in[0].shape, &b = in[1].shape;
  check_dtypes("matmul", in[0].dtype, in[1].dtype);
  if (a.rank() < 2 || b.rank() < 2)
    fail("matmul of {} and {}: operands must have at least two axes", in[0].to_string(), in[1].to_string());
  const Dim m = a[a.rank() - (transpose_a ? 1 : 2)], ka = a[a.rank() - (transpose_a ? 2 : 1)];
  const Dim n = b[b.rank() - (transpose_b ? 2 : 1)], kb = b[b.rank() - (transpose_b ? 1 : 2)];
  if (!(ka == kb))
    fail("matmul of {}{} and {}{}: inner sizes {} and {} differ", in[0].to_string(),
         transpose_a ? " transposed" : "", in[1].to_string(), transpose_b ? " transposed" : "",
         ka.to_string(), kb.to_string());
  Shape shape = broadcast(leading_axes(a, 2), leading_axes(b, 2));
  shape.push_back(m);
  shape.push_back(n);
  const TensorType result{in[0].dtype, shape};
  if (in.size() > 2) check_addend("matmul", in[2], result);
  return {result};
}

Cost Matmul::cost(Types in, Types out) const {
  const bool swapped = transpose_a && in[0].shape.rank() > 1;
  return {bytes_moved(in, out), product_flops(out[0], axis_size(in[0], swapped ? -2 : -1))};
}

// y = op(a) op(b): d op(a) = dy op(b)^T and d op(b) = op(a)^T dy, each asked for in the orientation it is
// stored in.
void Matmul::grad(GradientContext& g) const {
  const Value a = g.input(0), b = g.input(1), dy = g.dy();
  if (g.num_inputs() > 2) g.set(2, dy);
  if (g.wants(0))
    g.set(0, transpose_a ? matmul(b, dy, transpose_b, true) : matmul(dy, b, false, !transpose_b));
  if (!g.wants(1)) return;
  const bool one_matrix = !transpose_a && is_all_ones(leading_axes(b.shape(), 2));
  if (!one_matrix)
    return g.set(1, transpose_b ? matmul(dy, a, true, transpose_a) : matmul(a, dy, !transpose_a, false));
  // One b for the whole batch: the sum over the batch is part of one long product over all rows.
  const Value rows = as_rows(a), dy_rows = as_rows(dy);
  const Value db = transpose_b ? matmul(dy_rows, rows, true) : matmul(rows, dy_rows, true);
  g.set(1, reshape(db, b.shape()));
}

std::vector<TensorType> Linear::infer(Types in) const {
  const TensorType &x = in[0], &weight = in[1];
  check_dtypes("linear", x.dtype, weight.dtype);
  if (weight.shape.rank() != 2) fail("linear: weight must be [out, in], got {}", weight.to_string());
  if (x.shape.rank() < 1 || !(x.shape[x.shape.rank() - 1] == weight.shape[1]))
    fail("linear: x {} does not fit weight {}: its last size must be {}", x.to_string(), weight.to_string(),
         weight.shape[1].to_string());
  if (has_bias(in.size()) && !(in[2] == TensorType{x.dtype, {weight.shape[0]}}))
    fail("linear: bias must be {}[{}], got {}", name_of(x.dtype), weight.shape[0].to_string(),
         in[2].to_string());
  if (activation != Activation::kNone && !is_float(x.dtype))
    fail("linear with an activation needs a floating-point dtype, got {}", name_of(x.dtype));
  if (has_addend && activation != Activation::kNone)
    fail("linear: an addend goes with no activation, got {}",
         EnumNames<Activation>::names[static_cast<size_t>(activation)]);
  Shape shape = leading_axes(x.shape, 1);
  shape.push_back(weight.shape[0]);
  const TensorType result{x.dtype, shape};
  if (has_addend && in.size() < 3)
    fail("linear with an addend needs three inputs at least, got {}", in.size());
  if (!has_addend && in.size() > 3) fail("linear takes a fourth input only with `has_addend`");
  if (has_addend) check_addend("linear", in.back(), result);
  return {result};
}

Cost Linear::cost(Types in, Types out) const {
  return {bytes_moved(in, out), product_flops(out[0], axis_size(in[0], -1))};
}

std::vector<InPlace> Linear::in_place(Types in, Types) const {
  if (!has_addend) return {};
  return {{.output = 0, .input = static_cast<int>(in.size()) - 1}};
}

namespace {

// Phi(x) + x phi(x), with phi the standard normal density and Phi its integral.
Value gelu_slope(Value x) {
  const Value density = exp(square(x) * -0.5) * (0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
  return (erf(x * (1 / std::numbers::sqrt2)) + 1) * 0.5 + x * density;
}

// gelu_tanh = x/2 (1 + t), t = tanh(u), u = c (x + 0.044715 x^3).
Value gelu_tanh_slope(Value x) {
  const double c = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const Value x2 = square(x), t = tanh(x * (x2 * 0.044715 + 1) * c);
  return (t + 1) * 0.5 + x * (1 - square(t)) * (x2 * (3 * 0.044715) + 1) * (0.5 * c);
}

Value silu_slope(Value x) {
  const Value s = sigmoid(x);
  return s * (x * (1 - s) + 1);
}

// dy times the slope of the activation at `pre`.
Value through_activation(Value dy, Value pre, Activation activation) {
  if (activation == Activation::kRelu) return where(pre > scalar_like(pre, 0), dy, scalar_like(pre, 0));
  if (activation == Activation::kSilu) return dy * silu_slope(pre);
  return dy * (activation == Activation::kGelu ? gelu_slope(pre) : gelu_tanh_slope(pre));
}

// One layer of a node: where its weight and bias stand among the inputs (bias -1: none).
struct LayerInputs {
  int weight, bias = -1;
};

Value weigh(GradientContext& g, const LayerInputs& layer) {
  return linear(g.input(0), g.input(layer.weight), layer.bias < 0 ? Value{} : g.input(layer.bias));
}

// The gradient of weigh() by weight and bias is set, that by x returned where it is wanted. The forward pass
// keeps no pre-activation, so an activation computes it again.
Value linear_grad(GradientContext& g, const LayerInputs& layer, Value dy, Activation activation) {
  if (activation != Activation::kNone) dy = through_activation(dy, weigh(g, layer), activation);
  if (g.wants(layer.weight)) g.set(layer.weight, matmul(as_rows(dy), as_rows(g.input(0)), true));
  if (layer.bias >= 0 && g.wants(layer.bias)) g.set(layer.bias, sum(as_rows(dy), {0}));
  return g.wants(0) ? matmul(dy, g.input(layer.weight)) : Value{};
}

void add_to(Value& total, Value more) { total = total && more ? total + more : total ? total : more; }

}  // namespace

void Linear::grad(GradientContext& g) const {
  const auto count = static_cast<size_t>(g.num_inputs());
  const Value dx = linear_grad(g, {1, has_bias(count) ? 2 : -1}, g.dy(), activation);
  if (has_addend) g.set(static_cast<int>(count) - 1, g.dy());
  if (dx) g.set(0, dx);
}

std::vector<TensorType> LinearWeightGrad::infer(Types in) const {
  const TensorType &dy = in[0], &x = in[1];
  check_dtypes("linear_weight_grad", dy.dtype, x.dtype);
  if (dy.shape.rank() != 2 || x.shape.rank() != 2 || !(dy.shape[0] == x.shape[0]))
    fail("linear_weight_grad: dy {} and x {} must be matrices with the same number of rows", dy.to_string(),
         x.to_string());
  return {{dy.dtype, {dy.shape[1], x.shape[1]}}, {dy.dtype, {dy.shape[1]}}};
}

Cost LinearWeightGrad::cost(Types in, Types out) const {
  return {bytes_moved(in, out), product_flops(out[0], axis_size(in[0], 0))};
}

std::vector<TensorType> MergedLinear::infer(Types in) const {
  if (has_bias && in.size() % 2 == 0)
    fail("merged_linear with biases needs one for each weight, got {} inputs besides x", in.size() - 1);
  std::vector<TensorType> types;
  const auto count = static_cast<size_t>(layers(in.size()));
  for (size_t i = 1; i <= count; ++i) {
    std::vector<TensorType> layer = {in[0], in[i]};
    if (has_bias) layer.push_back(in[i + count]);
    types.push_back(Linear{activation}.infer(layer)[0]);
  }
  return types;
}

Cost MergedLinear::cost(Types in, Types out) const {
  Cost cost{.bytes = bytes_moved(in, out)};
  for (const TensorType& result : out) cost.flops += product_flops(result, axis_size(in[0], -1));
  return cost;
}

void MergedLinear::grad(GradientContext& g) const {
  const int count = layers(static_cast<size_t>(g.num_inputs()));
  Value dx;
  for (int i = 0; i < count; ++i)
    if (g.dy(i)) add_to(dx, linear_grad(g, {1 + i, has_bias ? 1 + count + i : -1}, g.dy(i), activation));
  if (dx) g.set(0, dx);
}

std::vector<TensorType> LinearSwiglu::infer(Types in) const {
  if (in.size() == 4) fail("linear_swiglu needs both biases or none, got one");
  const bool has_bias = in.size() > 3;
  if (!(in[1] == in[2]))
    fail("linear_swiglu: gate {} and up {} must be of one type", in[1].to_string(), in[2].to_string());
  if (has_bias && !(in[3] == in[4]))
    fail("linear_swiglu: biases {} and {} must be of one type", in[3].to_string(), in[4].to_string());
  std::vector<TensorType> gate = {in[0], in[1]};
  if (has_bias) gate.push_back(in[3]);
  return Linear{Activation::kSilu}.infer(gate);
}

Cost LinearSwiglu::cost(Types in, Types out) const {
  return {bytes_moved(in, out), 2 * product_flops(out[0], axis_size(in[0], -1))};
}

void LinearSwiglu::grad(GradientContext& g) const {
  const bool has_bias = g.num_inputs() > 3;
  const LayerInputs gate{1, has_bias ? 3 : -1}, up{2, has_bias ? 4 : -1};
  const Value gated = weigh(g, gate);
  Value dx = linear_grad(g, gate, g.dy() * weigh(g, up) * silu_slope(gated), Activation::kNone);
  add_to(dx, linear_grad(g, up, g.dy() * silu(gated), Activation::kNone));
  if (dx) g.set(0, dx);
}

}  // namespace ops

namespace {

constexpr OpDef kMatmul = make_op<ops::Matmul>();
constexpr OpDef kLinear = make_op<ops::Linear>();
constexpr OpDef kLinearWeightGrad = make_op<ops::LinearWeightGrad>();
constexpr OpDef kMergedLinear = make_op<ops::MergedLinear>();
constexpr OpDef kLinearSwiglu = make_op<ops::LinearSwiglu>();
constexpr const OpDef* kOps[] = {&kMatmul, &kLinear, &kLinearWeightGrad, &kMergedLinear, &kLinearSwiglu};

}  // namespace

std::span<const OpDef* const> matmul_ops() { return kOps; }

Value matmul(Value a, Value b, bool transpose_a, bool transpose_b, Value addend) {
  if (a.rank() == 0 || b.rank() == 0)
    fail("matmul of {} and {}: operands must have at least one axis", a.type().to_string(),
         b.type().to_string());
  if ((transpose_a && a.rank() == 1) || (transpose_b && b.rank() == 1))
    fail("matmul: an operand with one axis cannot be transposed");
  DType dtype = promote(a.dtype(), b.dtype());
  if (addend) dtype = promote(dtype, addend.dtype());
  a = cast(a, dtype);
  b = cast(b, dtype);
  const bool vector_a = a.rank() == 1, vector_b = b.rank() == 1;
  if (vector_a) a = unsqueeze(a, 0);
  if (vector_b) b = unsqueeze(b, 1);
  std::vector<Value> inputs = {a, b};
  if (addend) {
    addend = cast(addend, dtype);
    if (vector_a) addend = unsqueeze(addend, vector_b ? -1 : -2);
    if (vector_b) addend = unsqueeze(addend, -1);
    inputs.push_back(addend);
  }
  Value y = emit_node(kMatmul, to_attributes(ops::Matmul{transpose_a, transpose_b}), inputs)[0];
  if (vector_b) y = squeeze(y, -1);
  if (vector_a) y = squeeze(y, vector_b ? -1 : -2);
  return y;
}

Value linear(Value x, Value weight, Value bias, Activation activation, Value addend) {
  DType dtype = promote(x.dtype(), weight.dtype());
  if (addend) dtype = promote(dtype, addend.dtype());
  std::vector<Value> inputs = {cast(x, dtype), cast(weight, dtype)};
  if (bias) inputs.push_back(cast(bias, dtype));
  if (addend) inputs.push_back(cast(addend, dtype));
  return emit_node(kLinear, to_attributes(ops::Linear{activation, static_cast<bool>(addend)}), inputs)[0];
}

std::vector<Value> linear_weight_grad(Value dy, Value x) { return emit_node(kLinearWeightGrad, {}, {dy, x}); }

std::vector<Value> merged_linear(Value x, const std::vector<Value>& weights, const std::vector<Value>& biases,
                                 Activation activation) {
  if (!biases.empty() && biases.size() != weights.size())
    fail("merged_linear of {} weights and {} biases: give no bias, or one for each weight", weights.size(),
         biases.size());
  DType dtype = x.dtype();
  for (Value weight : weights) dtype = promote(dtype, weight.dtype());
  std::vector<Value> inputs = {cast(x, dtype)};
  for (Value weight : weights) inputs.push_back(cast(weight, dtype));
  for (Value bias : biases) inputs.push_back(cast(bias, dtype));
  return emit_node(kMergedLinear, to_attributes(ops::MergedLinear{!biases.empty(), activation}), inputs);
}

Value linear_swiglu(Value x, Value gate, Value up, Value gate_bias, Value up_bias) {
  const DType dtype = promote(promote(x.dtype(), gate.dtype()), up.dtype());
  std::vector<Value> inputs = {cast(x, dtype), cast(gate, dtype), cast(up, dtype)};
  for (Value bias : {gate_bias, up_bias})
    if (bias) inputs.push_back(cast(bias, dtype));
  return emit_node(kLinearSwiglu, {}, inputs)[0];
}

}  // namespace genesis
