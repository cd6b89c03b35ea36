// Elementwise functions of one operand without attributes. Formulas: schema/ops/elementwise/formulas.h.
#include "schema/ops/elementwise/elementwise_rules.h"

namespace genesis {
namespace {

using namespace elementwise;

constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

constexpr OpDef kNeg = cheap("neg", "-x.", [](G& g, A) { g.set(0, -g.dy()); });
constexpr OpDef kAbs =
    cheap("abs", "The magnitude of x.", [](G& g, A) { g.set(0, g.dy() * sign(g.input(0))); });
constexpr OpDef kSquare = cheap("square", "x * x.", [](G& g, A) { g.set(0, g.dy() * (g.input(0) * 2.0)); });
constexpr OpDef kSign = cheap("sign", "-1, 0 or 1 by the sign of x; 0 for NaN.", kZeroGradient);
constexpr OpDef kFloor = cheap("floor", "The largest integer not above x.", kZeroGradient);
constexpr OpDef kCeil = cheap("ceil", "The smallest integer not below x.", kZeroGradient);
constexpr OpDef kRound = cheap("round", "The nearest integer; halves go to the even one.", kZeroGradient);

constexpr OpDef kExp =
    transcendental("exp", "e to the power x.", [](G& g, A) { g.set(0, g.dy() * g.output()); });
constexpr OpDef kLog =
    transcendental("log", "The natural logarithm of x.", [](G& g, A) { g.set(0, g.dy() / g.input(0)); });
constexpr OpDef kLog1p = transcendental("log1p", "log(1 + x), accurate near 0.",
                                        [](G& g, A) { g.set(0, g.dy() / (g.input(0) + 1.0)); });
constexpr OpDef kExpm1 = transcendental("expm1", "exp(x) - 1, accurate near 0.",
                                        [](G& g, A) { g.set(0, g.dy() * (g.output() + 1.0)); });
constexpr OpDef kSqrt =
    transcendental("sqrt", "The square root of x.", [](G& g, A) { g.set(0, g.dy() / (g.output() * 2.0)); });
constexpr OpDef kRsqrt = transcendental("rsqrt", "1 / sqrt(x).", [](G& g, A) {
  const Value y = g.output();
  g.set(0, g.dy() * (y * y * y * -0.5));
});
constexpr OpDef kReciprocal =
    transcendental("reciprocal", "1 / x.", [](G& g, A) { g.set(0, -g.dy() * g.output() * g.output()); });
constexpr OpDef kSin =
    transcendental("sin", "The sine of x in radians.", [](G& g, A) { g.set(0, g.dy() * cos(g.input(0))); });
constexpr OpDef kCos = transcendental("cos", "The cosine of x in radians.",
                                      [](G& g, A) { g.set(0, -g.dy() * sin(g.input(0))); });
constexpr OpDef kTan = transcendental("tan", "The tangent of x in radians.",
                                      [](G& g, A) { g.set(0, g.dy() * (square(g.output()) + 1.0)); });
constexpr OpDef kAsin = transcendental("asin", "The angle whose sine is x.",
                                       [](G& g, A) { g.set(0, g.dy() * rsqrt(1.0 - square(g.input(0)))); });
constexpr OpDef kAcos = transcendental("acos", "The angle whose cosine is x.",
                                       [](G& g, A) { g.set(0, -g.dy() * rsqrt(1.0 - square(g.input(0)))); });
constexpr OpDef kAtan = transcendental("atan", "The angle whose tangent is x.",
                                       [](G& g, A) { g.set(0, g.dy() / (square(g.input(0)) + 1.0)); });
constexpr OpDef kSinh =
    transcendental("sinh", "The hyperbolic sine of x.", [](G& g, A) { g.set(0, g.dy() * cosh(g.input(0))); });
constexpr OpDef kCosh = transcendental("cosh", "The hyperbolic cosine of x.",
                                       [](G& g, A) { g.set(0, g.dy() * sinh(g.input(0))); });
constexpr OpDef kTanh = transcendental("tanh", "The hyperbolic tangent of x.",
                                       [](G& g, A) { g.set(0, g.dy() * (1.0 - square(g.output()))); });
constexpr OpDef kErf = transcendental("erf", "The error function of x.", [](G& g, A) {
  g.set(0, g.dy() * (exp(-square(g.input(0))) * kTwoOverSqrtPi));
});

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
