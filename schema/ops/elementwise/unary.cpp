// Elementwise functions of one operand without attributes. Formulas: schema/ops/elementwise/formulas.h.
#include "schema/ops/elementwise/elementwise_rules.h"

namespace genesis {
namespace {

using namespace elementwise;

constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

constexpr OpDef kRows[] = {
    row<ops::Neg>(infer_numeric, [](G& g, A) { g.set(0, -g.dy()); }),
    row<ops::Abs>(infer_numeric, [](G& g, A) { g.set(0, g.dy() * sign(g.input(0))); }),
    row<ops::Square>(infer_numeric, [](G& g, A) { g.set(0, g.dy() * (g.input(0) * 2.0)); }),
    row<ops::Sign>(infer_numeric, kZeroGradient),
    row<ops::Floor>(infer_numeric, kZeroGradient),
    row<ops::Ceil>(infer_numeric, kZeroGradient),
    row<ops::Round>(infer_numeric, kZeroGradient),
    row<ops::Exp>(infer_real, [](G& g, A) { g.set(0, g.dy() * g.output()); }),
    row<ops::Log>(infer_real, [](G& g, A) { g.set(0, g.dy() / g.input(0)); }),
    row<ops::Log1p>(infer_real, [](G& g, A) { g.set(0, g.dy() / (g.input(0) + 1.0)); }),
    row<ops::Expm1>(infer_real, [](G& g, A) { g.set(0, g.dy() * (g.output() + 1.0)); }),
    row<ops::Sqrt>(infer_real, [](G& g, A) { g.set(0, g.dy() / (g.output() * 2.0)); }),
    row<ops::Rsqrt>(infer_real,
                    [](G& g, A) {
                      const Value y = g.output();
                      g.set(0, g.dy() * (y * y * y * -0.5));
                    }),
    row<ops::Reciprocal>(infer_real, [](G& g, A) { g.set(0, -g.dy() * g.output() * g.output()); }),
    row<ops::Sin>(infer_real, [](G& g, A) { g.set(0, g.dy() * cos(g.input(0))); }),
    row<ops::Cos>(infer_real, [](G& g, A) { g.set(0, -g.dy() * sin(g.input(0))); }),
    row<ops::Tan>(infer_real, [](G& g, A) { g.set(0, g.dy() * (square(g.output()) + 1.0)); }),
    row<ops::Asin>(infer_real, [](G& g, A) { g.set(0, g.dy() * rsqrt(1.0 - square(g.input(0)))); }),
    row<ops::Acos>(infer_real, [](G& g, A) { g.set(0, -g.dy() * rsqrt(1.0 - square(g.input(0)))); }),
    row<ops::Atan>(infer_real, [](G& g, A) { g.set(0, g.dy() / (square(g.input(0)) + 1.0)); }),
    row<ops::Sinh>(infer_real, [](G& g, A) { g.set(0, g.dy() * cosh(g.input(0))); }),
    row<ops::Cosh>(infer_real, [](G& g, A) { g.set(0, g.dy() * sinh(g.input(0))); }),
    row<ops::Tanh>(infer_real, [](G& g, A) { g.set(0, g.dy() * (1.0 - square(g.output()))); }),
    row<ops::Erf>(infer_real,
                  [](G& g, A) { g.set(0, g.dy() * (exp(-square(g.input(0))) * kTwoOverSqrtPi)); }),
};

}  // namespace

std::span<const OpDef* const> unary_ops() { return pointers_to<kRows>(); }

Value formula(std::string_view op, const std::vector<Value>& inputs) {
  return emit_node(*find_op(op), {}, inputs)[0];
}

}  // namespace genesis
