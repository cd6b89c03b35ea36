// Activations and clamp: elementwise functions of one operand, some with attributes. Formulas: schema/ops/elementwise/formulas.h.
#include <cmath>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise_rules.h"

namespace genesis {

using namespace elementwise;

namespace {

constexpr double kSqrtHalf = 0.70710678118654752440, kInvSqrtTwoPi = 0.39894228040143267794;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588, kGeluCubic = 0.044715;

// Returns the derivative of x * cdf(x): cdf + x * cdf'.
Value gelu_slope(Value x) {
  const Value cdf = (erf(x * kSqrtHalf) + 1.0) * 0.5;
  return cdf + x * (exp(square(x) * -0.5) * kInvSqrtTwoPi);
}

Value gelu_tanh_slope(Value x) {
  const Value xx = square(x);
  const Value t = tanh(x * (xx * kGeluCubic + 1.0) * kSqrtTwoOverPi);
  const Value inner = (xx * (3.0 * kGeluCubic) + 1.0) * kSqrtTwoOverPi;
  return (t + 1.0) * 0.5 + x * 0.5 * (1.0 - square(t)) * inner;
}

}  // namespace

namespace ops {

std::vector<TensorType> LeakyRelu::infer(Types in) const { return infer_real({}, in); }
void LeakyRelu::grad(G& g) const {
  g.set(0, where(gt(g.input(0), zero_like(g.input(0))), g.dy(), g.dy() * negative_slope));
}

std::vector<TensorType> Elu::infer(Types in) const { return infer_real({}, in); }
void Elu::grad(G& g) const {
  g.set(0, where(gt(g.input(0), zero_like(g.input(0))), g.dy(), g.dy() * (g.output() + alpha)));
}

std::vector<TensorType> Gelu::infer(Types in) const { return infer_real({}, in); }
void Gelu::grad(G& g) const {
  const Value x = g.input(0);
  g.set(0, g.dy() * (approximate == GeluKind::kErf ? gelu_slope(x) : gelu_tanh_slope(x)));
}

std::vector<TensorType> Softplus::infer(Types in) const { return infer_real({}, in); }
void Softplus::grad(G& g) const {
  const Value z = g.input(0) * beta;
  g.set(0, where(gt(z, scalar_like(z, threshold)), g.dy(), g.dy() * sigmoid(z)));
}

std::vector<TensorType> Clamp::infer(Types in) const { return infer_numeric({}, in); }
void Clamp::grad(G& g) const {
  const Value x = g.input(0);
  const Value inside = logical_and(ge(x, scalar_like(x, min)), le(x, scalar_like(x, max)));
  g.set(0, where(inside, g.dy(), zero_like(g.dy())));
}

}  // namespace ops

namespace {

constexpr OpDef kSigmoid =
    row<ops::Sigmoid>(infer_real, [](G& g, A) { g.set(0, g.dy() * (g.output() * (1.0 - g.output()))); });
constexpr OpDef kRelu = row<ops::Relu>(infer_numeric, [](G& g, A) {
  g.set(0, where(le(g.output(), zero_like(g.output())), zero_like(g.dy()), g.dy()));
});
constexpr OpDef kSilu = row<ops::Silu>(infer_real, [](G& g, A) {
  const Value x = g.input(0), s = sigmoid(x);
  g.set(0, g.dy() * (s * (x * (1.0 - s) + 1.0)));
});
constexpr OpDef kHardswish = row<ops::Hardswish>(infer_real, [](G& g, A) {
  const Value x = g.input(0), slope = g.dy() * (x / 3.0 + 0.5);
  const Value below = le(x, scalar_like(x, -3.0)), above = ge(x, scalar_like(x, 3.0));
  g.set(0, where(below, zero_like(slope), where(above, g.dy(), slope)));
});
constexpr OpDef kMish = row<ops::Mish>(infer_real, [](G& g, A) {
  const Value x = g.input(0), t = tanh(softplus(x));
  g.set(0, g.dy() * (t + x * sigmoid(x) * (1.0 - square(t))));
});

constexpr const OpDef* kOps[] = {&kSigmoid,
                                 &kRelu,
                                 &kOpDef<ops::LeakyRelu>,
                                 &kOpDef<ops::Elu>,
                                 &kSilu,
                                 &kOpDef<ops::Gelu>,
                                 &kOpDef<ops::Softplus>,
                                 &kHardswish,
                                 &kMish,
                                 &kOpDef<ops::Clamp>};

}  // namespace

std::span<const OpDef* const> activation_ops() { return kOps; }

Value leaky_relu(Value x, double negative_slope) { return emit(ops::LeakyRelu{negative_slope}, {x}); }
Value elu(Value x, double alpha) { return emit(ops::Elu{alpha}, {x}); }
Value gelu(Value x, GeluKind approximate) { return emit(ops::Gelu{approximate}, {x}); }
Value softplus(Value x, double beta, double threshold) { return emit(ops::Softplus{beta, threshold}, {x}); }
Value clamp(Value x, double min, double max) {
  const auto fractional = [](double bound) { return std::isfinite(bound) && bound != std::floor(bound); };
  if (is_integer(x.dtype()) && (fractional(min) || fractional(max))) x = cast(x, DType::f32);
  return emit(ops::Clamp{min, max}, {x});
}

}  // namespace genesis
