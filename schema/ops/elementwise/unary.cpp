// Elementwise functions of one operand without attributes. Formulas: schema/ops/elementwise/formulas.h.
#include "schema/ops/elementwise/elementwise_rules.h"

namespace genesis {
namespace {

using namespace elementwise;

constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

constexpr OpDef kNeg = row<ops::Neg>(infer_numeric, [](G& g, A) { g.set(0, -g.dy()); });
constexpr OpDef kAbs = row<ops::Abs>(infer_numeric, [](G& g, A) { g.set(0, g.dy() * sign(g.input(0))); });
constexpr OpDef kSquare =
    row<ops::Square>(infer_numeric, [](G& g, A) { g.set(0, g.dy() * (g.input(0) * 2.0)); });
constexpr OpDef kSign = row<ops::Sign>(infer_numeric, kZeroGradient);
constexpr OpDef kFloor = row<ops::Floor>(infer_numeric, kZeroGradient);
constexpr OpDef kCeil = row<ops::Ceil>(infer_numeric, kZeroGradient);
constexpr OpDef kRound = row<ops::Round>(infer_numeric, kZeroGradient);

constexpr OpDef kExp = row<ops::Exp>(infer_real, [](G& g, A) { g.set(0, g.dy() * g.output()); });
constexpr OpDef kLog = row<ops::Log>(infer_real, [](G& g, A) { g.set(0, g.dy() / g.input(0)); });
constexpr OpDef kLog1p = row<ops::Log1p>(infer_real, [](G& g, A) { g.set(0, g.dy() / (g.input(0) + 1.0)); });
constexpr OpDef kExpm1 = row<ops::Expm1>(infer_real, [](G& g, A) { g.set(0, g.dy() * (g.output() + 1.0)); });
constexpr OpDef kSqrt = row<ops::Sqrt>(infer_real, [](G& g, A) { g.set(0, g.dy() / (g.output() * 2.0)); });
constexpr OpDef kRsqrt = row<ops::Rsqrt>(infer_real, [](G& g, A) {
  const Value y = g.output();
  g.set(0, g.dy() * (y * y * y * -0.5));
});
constexpr OpDef kReciprocal =
    row<ops::Reciprocal>(infer_real, [](G& g, A) { g.set(0, -g.dy() * g.output() * g.output()); });
constexpr OpDef kSin = row<ops::Sin>(infer_real, [](G& g, A) { g.set(0, g.dy() * cos(g.input(0))); });
constexpr OpDef kCos = row<ops::Cos>(infer_real, [](G& g, A) { g.set(0, -g.dy() * sin(g.input(0))); });
constexpr OpDef kTan =
    row<ops::Tan>(infer_real, [](G& g, A) { g.set(0, g.dy() * (square(g.output()) + 1.0)); });
constexpr OpDef kAsin =
    row<ops::Asin>(infer_real, [](G& g, A) { g.set(0, g.dy() * rsqrt(1.0 - square(g.input(0)))); });
constexpr OpDef kAcos =
    row<ops::Acos>(infer_real, [](G& g, A) { g.set(0, -g.dy() * rsqrt(1.0 - square(g.input(0)))); });
constexpr OpDef kAtan =
    row<ops::Atan>(infer_real, [](G& g, A) { g.set(0, g.dy() / (square(g.input(0)) + 1.0)); });
constexpr OpDef kSinh = row<ops::Sinh>(infer_real, [](G& g, A) { g.set(0, g.dy() * cosh(g.input(0))); });
constexpr OpDef kCosh = row<ops::Cosh>(infer_real, [](G& g, A) { g.set(0, g.dy() * sinh(g.input(0))); });
constexpr OpDef kTanh =
    row<ops::Tanh>(infer_real, [](G& g, A) { g.set(0, g.dy() * (1.0 - square(g.output()))); });
constexpr OpDef kErf = row<ops::Erf>(
    infer_real, [](G& g, A) { g.set(0, g.dy() * (exp(-square(g.input(0))) * kTwoOverSqrtPi)); });

constexpr const OpDef* kOps[] = {&kNeg, &kAbs,   &kSquare, &kSign, &kFloor, &kCeil,       &kRound, &kExp,
                                 &kLog, &kLog1p, &kExpm1,  &kSqrt, &kRsqrt, &kReciprocal, &kSin,   &kCos,
                                 &kTan, &kAsin,  &kAcos,   &kAtan, &kSinh,  &kCosh,       &kTanh,  &kErf};

}  // namespace

std::span<const OpDef* const> unary_ops() { return kOps; }

Value neg(Value x) { return emit(kNeg, {x}); }
Value abs(Value x) { return emit(kAbs, {x}); }
Value square(Value x) { return emit(kSquare, {x}); }
Value sign(Value x) { return emit(kSign, {x}); }
Value floor(Value x) { return emit(kFloor, {x}); }
Value ceil(Value x) { return emit(kCeil, {x}); }
Value round(Value x) { return emit(kRound, {x}); }
Value exp(Value x) { return emit(kExp, {x}); }
Value log(Value x) { return emit(kLog, {x}); }
Value log1p(Value x) { return emit(kLog1p, {x}); }
Value expm1(Value x) { return emit(kExpm1, {x}); }
Value sqrt(Value x) { return emit(kSqrt, {x}); }
Value rsqrt(Value x) { return emit(kRsqrt, {x}); }
Value reciprocal(Value x) { return emit(kReciprocal, {x}); }
Value sin(Value x) { return emit(kSin, {x}); }
Value cos(Value x) { return emit(kCos, {x}); }
Value tan(Value x) { return emit(kTan, {x}); }
Value asin(Value x) { return emit(kAsin, {x}); }
Value acos(Value x) { return emit(kAcos, {x}); }
Value atan(Value x) { return emit(kAtan, {x}); }
Value sinh(Value x) { return emit(kSinh, {x}); }
Value cosh(Value x) { return emit(kCosh, {x}); }
Value tanh(Value x) { return emit(kTanh, {x}); }
Value erf(Value x) { return emit(kErf, {x}); }

}  // namespace genesis
