// Rules of elementwise operators, and of others whose result has the type of an input.
#include <algorithm>

#include "tools/viz/other_formats/onnx_type_call.h"

namespace genesis::viz {
namespace {

void like_first(OnnxCall& call) {
  call.type_like(0);
  if (const OnnxShape* x = call.shape(0)) call.shape(*x);
}

void keep(OnnxCall& call) {
  like_first(call);
  if (const auto* elements = call.elements(0)) call.elements(*elements);
}

// Sets the broadcast shape of all inputs; does nothing if one is unknown.
void broadcast_all(OnnxCall& call, size_t first = 0) {
  OnnxShape shape;
  for (size_t i = first; i < call.inputs.size(); ++i) {
    const OnnxShape* input = call.shape(i);
    if (!input) return;
    shape = broadcast(shape, *input);
  }
  call.shape(shape);
}

using Fold = std::optional<int64_t> (*)(int64_t, int64_t);

// Computes integers from integers. The lists have the same length, or one has a single element.
void fold(OnnxCall& call, Fold compute) {
  const auto *a = call.elements(0), *b = call.elements(1);
  if (!a || !b || a->empty() || b->empty()) return;
  const size_t count = std::max(a->size(), b->size());
  if ((a->size() != count && a->size() != 1) || (b->size() != count && b->size() != 1)) return;
  std::vector<OnnxDim> result;
  for (size_t i = 0; i < count; ++i) {
    const auto x = size_of((*a)[a->size() == 1 ? 0 : i]), y = size_of((*b)[b->size() == 1 ? 0 : i]);
    const auto value = x && y ? compute(*x, *y) : std::nullopt;
    result.push_back(value ? std::to_string(*value) : kUnknownDim);
  }
  call.elements(std::move(result));
}

void binary(OnnxCall& call) {
  call.type_like(call.has(0) && call.inputs[0]->type.dtype != "unknown" ? 0 : 1);
  broadcast_all(call);
}

void add(OnnxCall& call) {
  binary(call);
  fold(call, [](int64_t a, int64_t b) { return plus(a, b); });
}

void subtract(OnnxCall& call) {
  binary(call);
  fold(call, [](int64_t a, int64_t b) { return plus(a, times(b, -1)); });
}

void multiply(OnnxCall& call) {
  binary(call);
  fold(call, [](int64_t a, int64_t b) { return times(a, b); });
}

// Integer division rounds toward zero.
void divide(OnnxCall& call) {
  binary(call);
  fold(call, [](int64_t a, int64_t b) { return b > 0 ? std::optional(a / b) : std::nullopt; });
}

void compare(OnnxCall& call) {
  call.type(bool_type());
  broadcast_all(call);
}

void test(OnnxCall& call) {
  call.type(bool_type());
  if (const OnnxShape* x = call.shape(0)) call.shape(*x);
}

void where(OnnxCall& call) {
  call.type_like(1);
  broadcast_all(call);
}

void cast(OnnxCall& call) {
  keep(call);
  const OnnxType to = onnx_element_type(call.integer("to", 0));
  call.type(to);
  if (!call.outputs.empty() && !to.dtype.starts_with('i')) call.outputs[0].elements.reset();
}

void cast_like(OnnxCall& call) {
  like_first(call);
  call.type_like(1);
}

void dropout(OnnxCall& call) {
  like_first(call);
  call.type(bool_type(), 1);
  if (const OnnxShape* x = call.shape(0)) call.shape(*x, 1);
}

// Also sets the optional outputs, mean and inverse standard deviation, which have one value per row.
void layer_norm(OnnxCall& call) {
  like_first(call);
  const OnnxShape* x = call.shape(0);
  const auto axis = x ? axis_of(call.integer("axis", -1), x->size()) : std::nullopt;
  if (!axis) return;
  OnnxShape rows = *x;
  for (size_t i = *axis; i < rows.size(); ++i) rows[i] = "1";
  for (const size_t output : {1, 2}) {
    call.type(onnx_element_type(call.integer("stash_type", 1)), output);
    call.shape(rows, output);
  }
}

void quantize(OnnxCall& call) {
  like_first(call);
  const int64_t wanted = call.integer("output_dtype", 0);
  if (call.has(2))
    call.type_like(2);
  else
    call.type(onnx_element_type(wanted == 0 ? 2 : wanted));
}

void dequantize(OnnxCall& call) {
  like_first(call);
  call.type_like(1);
}

// The outputs are the quantized x, its scale and its zero point.
void dynamic_quantize(OnnxCall& call) {
  if (const OnnxShape* x = call.shape(0)) call.shape(*x);
  call.type(onnx_element_type(2));
  call.type_like(0, 1);
  call.shape({}, 1);
  call.type(onnx_element_type(2), 2);
  call.shape({}, 2);
}

// clang-format off
constexpr NamedOnnxRule kElementwiseRules[] = {
    {"Identity", keep}, {"Abs", like_first}, {"Acos", like_first}, {"Acosh", like_first}, {"Asin", like_first},
    {"Asinh", like_first}, {"Atan", like_first}, {"Atanh", like_first}, {"BatchNormalization", like_first},
    {"BitwiseNot", like_first}, {"Ceil", like_first}, {"Celu", like_first}, {"Clip", like_first}, {"Cos", like_first},
    {"Cosh", like_first}, {"CumSum", like_first}, {"Elu", like_first}, {"Erf", like_first}, {"Exp", like_first},
    {"Floor", like_first}, {"Gelu", like_first}, {"GroupNormalization", like_first}, {"HardSigmoid", like_first},
    {"HardSwish", like_first}, {"Hardmax", like_first}, {"InstanceNormalization", like_first}, {"LRN", like_first},
    {"LeakyRelu", like_first}, {"Log", like_first}, {"LogSoftmax", like_first}, {"LpNormalization", like_first},
    {"MeanVarianceNormalization", like_first}, {"Mish", like_first}, {"Neg", like_first}, {"PRelu", like_first},
    {"Reciprocal", like_first}, {"Relu", like_first}, {"ReverseSequence", like_first}, {"Round", like_first},
    {"RMSNormalization", like_first}, {"ScatterElements", like_first}, {"ScatterND", like_first},
    {"Scatter", like_first}, {"Selu", like_first}, {"Shrink", like_first}, {"Sigmoid", like_first},
    {"Sign", like_first}, {"Sin", like_first}, {"Sinh", like_first}, {"Softmax", like_first}, {"Softplus", like_first},
    {"Softsign", like_first}, {"Sqrt", like_first}, {"Swish", like_first}, {"Tan", like_first}, {"Tanh", like_first},
    {"ThresholdedRelu", like_first}, {"Trilu", like_first}, {"Add", add}, {"Sub", subtract}, {"Mul", multiply},
    {"Div", divide}, {"Mod", binary}, {"Pow", binary}, {"Max", binary}, {"Min", binary}, {"Sum", binary},
    {"Mean", binary}, {"BitShift", binary}, {"BitwiseAnd", binary}, {"BitwiseOr", binary}, {"BitwiseXor", binary},
    {"And", compare}, {"Or", compare}, {"Xor", compare}, {"Equal", compare}, {"Greater", compare},
    {"GreaterOrEqual", compare}, {"Less", compare}, {"LessOrEqual", compare}, {"Not", test}, {"IsNaN", test},
    {"IsInf", test}, {"Where", where}, {"Cast", cast}, {"CastLike", cast_like}, {"Dropout", dropout},
    {"LayerNormalization", layer_norm}, {"QuantizeLinear", quantize}, {"DequantizeLinear", dequantize},
    {"DynamicQuantizeLinear", dynamic_quantize},
};
// clang-format on

}  // namespace

std::span<const NamedOnnxRule> elementwise_rules() { return kElementwiseRules; }

}  // namespace genesis::viz
