#include "schema/ops/nn/matmul.h"

#include <cmath>
#include <numbers>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/nn/dequantize.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/swiglu.h"
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

// Returns [..., n] as [rows, n].
Value as_rows(Value x) { return reshape(x, {leading_axes(x.shape(), 1).numel(), x.dim(-1)}); }

void check_addend(std::string_view what, const TensorType& addend, const TensorType& result) {
  if (!(addend == result))
    fail("{}: addend must be {} as the result is, got {}", what, result.to_string(), addend.to_string());
}

bool is_all_ones(const Shape& shape) { return shape.numel() == Dim(1); }

}  // namespace

namespace ops {

namespace {

TensorType product_type(const Matmul& op, Types in) {
  const Shape &a = in[0].shape, &b = in[1].shape;
  check_dtypes("matmul", in[0].dtype, in[1].dtype);
  if (a.rank() < 2 || b.rank() < 2)
    fail("matmul of {} and {}: operands must have at least two axes", in[0].to_string(), in[1].to_string());
  const Dim m = a[a.rank() - (op.transpose_a ? 1 : 2)], ka = a[a.rank() - (op.transpose_a ? 2 : 1)];
  const Dim n = b[b.rank() - (op.transpose_b ? 2 : 1)], kb = b[b.rank() - (op.transpose_b ? 1 : 2)];
  if (!(ka == kb))
    fail("matmul of {}{} and {}{}: inner sizes {} and {} differ", in[0].to_string(),
         op.transpose_a ? " transposed" : "", in[1].to_string(), op.transpose_b ? " transposed" : "",
         ka.to_string(), kb.to_string());
  Shape shape = broadcast(leading_axes(a, 2), leading_axes(b, 2));
  shape.push_back(m);
  shape.push_back(n);
  return {op.wide && is_low_precision(in[0].dtype) ? DType::f32 : in[0].dtype, shape};
}

std::vector<TensorType> with_bias_grad(const TensorType& product, Types in) {
  if (in.size() > 2) fail("matmul with bias_grad takes two matrices, got {} inputs", in.size());
  if (in[0].shape.rank() != 2 || in[1].shape.rank() != 2)
    fail("matmul with bias_grad: {} and {} must be matrices", in[0].to_string(), in[1].to_string());
  return {product, {product.dtype, {product.shape[0]}}};
}

std::vector<TensorType> swiglu_grad_of(const Matmul& op, const TensorType& product, Types in) {
  if (in.size() < 3) fail("matmul with swiglu_grad needs gate and up as a third input");
  if (in[1].shape.rank() != 2 || op.transpose_a || op.transpose_b)
    fail("matmul with swiglu_grad: the second operand must be [k, n] and none transposed, got {}",
         in[1].to_string());
  const std::vector<TensorType> operands = {in[2], product};
  return SwigluGrad{op.with_output}.infer(operands);
}

[[noreturn]] void fail_without_gradient(std::string_view op) {
  fail(
      "{} in a form that passes make behind autodiff has no gradient: differentiate the graph it was made of",
      op);
}

}  // namespace

std::vector<TensorType> Matmul::infer(Types in) const {
  const TensorType product = product_type(*this, in);
  if (wide && epilogue != MatmulEpilogue::kNone) fail("matmul: `wide` goes with no epilogue");
  if (with_output && epilogue != MatmulEpilogue::kSwigluGrad)
    fail("matmul: `with_output` goes with the epilogue swiglu_grad alone");
  if (epilogue == MatmulEpilogue::kBiasGrad) return with_bias_grad(product, in);
  if (epilogue == MatmulEpilogue::kSwigluGrad) return swiglu_grad_of(*this, product, in);
  if (in.size() > 2) check_addend("matmul", in[2], product);
  return {product};
}

Cost Matmul::cost(Types in, Types out) const {
  const double flops = product_flops(out[0], static_cast<int64_t>(sum_length(in, out)));
  // The result has twice the product's elements, because it holds the gradients of gate and of up.
  return {bytes_moved(in, out), epilogue == MatmulEpilogue::kSwigluGrad ? flops / 2 : flops};
}

double Matmul::sum_length(Types in, Types) const {
  return static_cast<double>(axis_size(in[0], transpose_a && in[0].shape.rank() > 1 ? -2 : -1));
}

// y = op(a) op(b): d op(a) = dy op(b)^T and d op(b) = op(a)^T dy. Each gradient is computed in the orientation in which its
// operand is stored.
void Matmul::grad(GradientContext& g) const {
  if (!is_plain()) fail_without_gradient("matmul");
  const Value a = g.input(0), b = g.input(1), dy = g.dy();
  if (g.num_inputs() > 2) g.set(2, dy);
  if (g.wants(0))
    g.set(0, transpose_a ? matmul(b, dy, transpose_b, true) : matmul(dy, b, false, !transpose_b));
  if (!g.wants(1)) return;
  const bool one_matrix = !transpose_a && is_all_ones(leading_axes(b.shape(), 2));
  if (!one_matrix)
    return g.set(1, transpose_b ? matmul(dy, a, true, transpose_a) : matmul(a, dy, !transpose_a, false));
  // With one b for the whole batch, the sum over the batch becomes part of one long product over all rows.
  const Value rows = as_rows(a), dy_rows = as_rows(dy);
  const Value db = transpose_b ? matmul(dy_rows, rows, true) : matmul(rows, dy_rows, true);
  g.set(1, reshape(db, b.shape()));
}

void Linear::check_counts(Types in) const {
  if (weights < 1 || weights > kVariadic) fail("linear: `weights` must be 1 or more, got {}", weights);
  if (has_norm() && weights > kMaxNormedWeights)
    fail("linear of a norm takes {} weights at most, got {}", kMaxNormedWeights, weights);
  const size_t least = first_bias() + has_addend, biases = static_cast<size_t>(weights);
  if (in.size() != least && in.size() != least + biases)
    fail("linear with these attributes takes {} inputs, or {} with biases, got {}", least, least + biases,
         in.size());
  if (has_addend && !(is_one_product() && activation == Activation::kNone))
    fail("linear: an addend goes with one weight and no activation, got {} weights, activation {}", weights,
         EnumNames<Activation>::names[static_cast<size_t>(activation)]);
}

// Returns the type of the unquantized weight; a quantized weight counts as having x's dtype.
TensorType Linear::weight_type(Types in, size_t index) const {
  const TensorType& weight = in[first_weight() + index];
  if (!is_quantized()) return weight;
  const std::vector<TensorType> parts = {weight, in[first_scale() + index]};
  return Dequantize{weight_format, in[0].dtype}.infer(parts)[0];
}

// Returns the type of the result of one weight.
TensorType Linear::result(Types in, size_t index) const {
  const TensorType &x = in[0], weight = weight_type(in, index);
  check_dtypes("linear", x.dtype, weight.dtype);
  if (weight.shape.rank() != 2) fail("linear: weight must be [out, in], got {}", weight.to_string());
  if (x.shape.rank() < 1 || !(x.shape[x.shape.rank() - 1] == weight.shape[1]))
    fail("linear: x {} does not fit weight {}: its last size must be {}", x.to_string(), weight.to_string(),
         weight.shape[1].to_string());
  if (has_bias(in.size()))
    if (const TensorType& bias = in[first_bias() + index]; !(bias == TensorType{x.dtype, {weight.shape[0]}}))
      fail("linear: bias must be {}[{}], got {}", name_of(x.dtype), weight.shape[0].to_string(),
           bias.to_string());
  const bool needs_float = activation != Activation::kNone || epilogue != LinearEpilogue::kNone;
  if (needs_float && !is_float(x.dtype))
    fail("linear with an activation needs a floating-point dtype, got {}", name_of(x.dtype));
  Shape shape = leading_axes(x.shape, 1);
  shape.push_back(weight.shape[0]);
  return {wide && is_low_precision(x.dtype) ? DType::f32 : x.dtype, shape};
}

void Linear::check_epilogue(Types in) const {
  if (wide && (weights != 1 || activation != Activation::kNone || epilogue != LinearEpilogue::kNone))
    fail("linear: `wide` goes with one weight, no activation and no epilogue");
  if (epilogue == LinearEpilogue::kNone) return;
  if (activation != Activation::kNone)
    fail("linear: an epilogue with swiglu goes with no activation of its own");
  if (epilogue == LinearEpilogue::kWithSwiglu) {
    if (weights != 1 || has_norm() || has_bias(in.size()) || is_quantized())
      fail("linear with_swiglu takes x and one weight, gate and up side by side");
    return;
  }
  if (weights != 2)
    fail("linear with the epilogue swiglu takes the weights of gate and up, got {} weights", weights);
  const TensorType gate = weight_type(in, 0), up = weight_type(in, 1);
  if (!(gate == up)) fail("linear: gate {} and up {} must be of one type", gate.to_string(), up.to_string());
}

std::vector<TensorType> Linear::infer(Types in) const {
  check_counts(in);
  check_epilogue(in);
  if (has_norm()) RmsNorm{eps, 1, true}.infer(in.first(2));
  std::vector<TensorType> results;
  for (size_t i = 0; i < static_cast<size_t>(weights); ++i) results.push_back(result(in, i));
  if (epilogue == LinearEpilogue::kSwiglu) results.pop_back();
  if (epilogue == LinearEpilogue::kWithSwiglu)
    results.push_back(Swiglu{}.infer(std::vector<TensorType>{results[0]})[0]);
  if (has_addend) check_addend("linear", in.back(), results[0]);
  return results;
}

Cost Linear::cost(Types in, Types out) const {
  Cost cost{.bytes = bytes_moved(in, out)};
  const auto x = static_cast<double>(in[0].numel());
  for (size_t i = 0; i < static_cast<size_t>(weights); ++i)
    cost.flops += 2 * x * static_cast<double>(axis_size(in[first_weight() + i], 0));
  return cost;
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

// Returns dy times the slope of the activation at `pre`.
Value through_activation(Value dy, Value pre, Activation activation) {
  if (activation == Activation::kRelu) return where(pre > scalar_like(pre, 0), dy, scalar_like(pre, 0));
  if (activation == Activation::kSilu) return dy * silu_slope(pre);
  return dy * (activation == Activation::kGelu ? gelu_slope(pre) : gelu_tanh_slope(pre));
}

// Positions of a layer's weight and bias among the inputs of the node (bias -1: none).
struct LayerInputs {
  int weight, bias = -1;
};

Value weigh(GradientContext& g, const LayerInputs& layer) {
  return linear(g.input(0), g.input(layer.weight), layer.bias < 0 ? Value{} : g.input(layer.bias));
}

// Sets the gradients of weigh() with respect to weight and bias, and returns the gradient with respect to x if it is wanted. The
// forward pass keeps no pre-activation, so it is computed again if there is an activation.
Value linear_grad(GradientContext& g, const LayerInputs& layer, Value dy, Activation activation) {
  if (activation != Activation::kNone) dy = through_activation(dy, weigh(g, layer), activation);
  if (g.wants(layer.weight)) g.set(layer.weight, matmul(as_rows(dy), as_rows(g.input(0)), true));
  if (layer.bias >= 0 && g.wants(layer.bias)) g.set(layer.bias, sum(as_rows(dy), {0}));
  return g.wants(0) ? matmul(dy, g.input(layer.weight)) : Value{};
}

void add_to(Value& total, Value more) { total = total && more ? total + more : total ? total : more; }

}  // namespace

void Linear::grad(GradientContext& g) const {
  if (has_norm() || is_quantized() || epilogue == LinearEpilogue::kWithSwiglu)
    fail_without_gradient("linear");
  const auto count = static_cast<size_t>(g.num_inputs());
  const auto layer = [&](int i) {
    const int weight = static_cast<int>(first_weight()) + i, bias = static_cast<int>(first_bias()) + i;
    return LayerInputs{weight, has_bias(count) ? bias : -1};
  };
  Value dx;
  if (epilogue == LinearEpilogue::kSwiglu) {
    const Value gate = weigh(g, layer(0));
    dx = linear_grad(g, layer(0), g.dy() * weigh(g, layer(1)) * silu_slope(gate), Activation::kNone);
    add_to(dx, linear_grad(g, layer(1), g.dy() * silu(gate), Activation::kNone));
  } else {
    // The gradient of a wide result is f32; it is cast so that the products run in the operands' dtype.
    for (int i = 0; i < static_cast<int>(weights); ++i)
      if (g.dy(i)) add_to(dx, linear_grad(g, layer(i), cast(g.dy(i), g.input(0).dtype()), activation));
  }
  if (has_addend) g.set(static_cast<int>(count) - 1, g.dy());
  if (dx) g.set(0, dx);
}

}  // namespace ops

std::span<const OpDef* const> matmul_ops() { return kOpDefs<ops::Matmul, ops::Linear>; }

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
  Value y = emit(ops::Matmul{transpose_a, transpose_b}, inputs);
  if (vector_b) y = squeeze(y, -1);
  if (vector_a) y = squeeze(y, vector_b ? -1 : -2);
  return y;
}

Value linear(Value x, Value weight, Value bias, Activation activation, Value addend) {
  LinearOperands operands{.x = x, .weights = {weight}, .addend = addend};
  if (bias) operands.biases.push_back(bias);
  return linear({.activation = activation}, operands)[0];
}

std::vector<Value> matmul(const ops::Matmul& op, const std::vector<Value>& inputs) {
  return emit_node(op, inputs);
}

std::vector<Value> linear(ops::Linear op, const LinearOperands& operands) {
  op.weights = static_cast<int64_t>(operands.weights.size());
  op.has_addend = bool(operands.addend);
  if (!operands.biases.empty() && operands.biases.size() != operands.weights.size())
    fail("linear of {} weights and {} biases: give no bias, or one for each weight", operands.weights.size(),
         operands.biases.size());
  DType dtype = operands.x.dtype();
  if (!op.is_quantized())
    for (Value weight : operands.weights) dtype = promote(dtype, weight.dtype());
  if (operands.addend && !op.wide) dtype = promote(dtype, operands.addend.dtype());
  std::vector<Value> inputs = {cast(operands.x, dtype)};
  if (operands.norm) inputs.push_back(operands.norm);
  for (Value weight : operands.weights) inputs.push_back(op.is_quantized() ? weight : cast(weight, dtype));
  inputs.insert(inputs.end(), operands.scales.begin(), operands.scales.end());
  for (Value bias : operands.biases) inputs.push_back(cast(bias, dtype));
  if (operands.addend)
    inputs.push_back(cast(operands.addend, op.wide && is_low_precision(dtype) ? DType::f32 : dtype));
  return emit_node(op, inputs);
}

}  // namespace genesis
