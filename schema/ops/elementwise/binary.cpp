// Elementwise arithmetic on two operands. Formulas: schema/ops/elementwise/formulas.h.
#include "schema/ops/create.h"
#include "schema/ops/elementwise/elementwise_rules.h"

namespace genesis {
namespace {

using namespace elementwise;

// The operand that is the result gets dy; equal operands get half each.
void share(G& g, Value loses_a, Value loses_b) {
  const Value dy = g.dy(), zero = zero_like(dy);
  const Value shared = where(eq(g.input(0), g.input(1)), dy * 0.5, dy);
  if (g.wants(0)) g.set(0, where(loses_a, zero, shared));
  if (g.wants(1)) g.set(1, where(loses_b, zero, shared));
}

void pow_gradient(G& g, A) {
  const Value a = g.input(0), b = g.input(1), dy = g.dy(), zero = zero_like(dy);
  if (g.wants(0)) g.set(0, where(eq(b, zero_like(b)), zero, dy * (b * pow(a, b - 1.0))));
  if (!g.wants(1)) return;
  const Value flat = logical_and(eq(a, zero_like(a)), ge(b, zero_like(b)));
  g.set(1, where(flat, zero, dy * (g.output() * log(a))));
}

void atan2_gradient(G& g, A) {
  const Value a = g.input(0), b = g.input(1), dy = g.dy();
  const Value norm = square(a) + square(b);
  const Value scaled = where(eq(norm, zero_like(norm)), zero_like(norm), dy / norm);
  if (g.wants(0)) g.set(0, scaled * b);
  if (g.wants(1)) g.set(1, -(scaled * a));
}

constexpr OpDef kRows[] = {
    row<ops::Add>(infer_promoted, [](G& g, A) { g.set(0, g.dy()), g.set(1, g.dy()); }),
    row<ops::Sub>(infer_numeric,
                  [](G& g, A) {
                    g.set(0, g.dy());
                    if (g.wants(1)) g.set(1, -g.dy());
                  }),
    row<ops::Mul>(infer_promoted,
                  [](G& g, A) {
                    if (g.wants(0)) g.set(0, g.dy() * g.input(1));
                    if (g.wants(1)) g.set(1, g.dy() * g.input(0));
                  }),
    row<ops::Div>(infer_real,
                  [](G& g, A) {
                    if (g.wants(0)) g.set(0, g.dy() / g.input(1));
                    if (g.wants(1)) g.set(1, -g.dy() * (g.output() / g.input(1)));
                  }),
    row<ops::Floordiv>(infer_numeric, kZeroGradient),
    row<ops::Remainder>(infer_numeric,
                        [](G& g, A) {
                          g.set(0, g.dy());
                          if (g.wants(1)) g.set(1, -g.dy() * floordiv(g.input(0), g.input(1)));
                        }),
    row<ops::Pow>(infer_numeric, pow_gradient),
    row<ops::Maximum>(infer_promoted,
                      [](G& g, A) { share(g, lt(g.input(0), g.input(1)), gt(g.input(0), g.input(1))); }),
    row<ops::Minimum>(infer_promoted,
                      [](G& g, A) { share(g, gt(g.input(0), g.input(1)), lt(g.input(0), g.input(1))); }),
    row<ops::Atan2>(infer_real, atan2_gradient),
};

// Returns the dtype of a number beside a tensor, which never widens the tensor. Beside low precision it is f32, unless that would
// determine the dtype of the result.
DType scalar_dtype(const TensorType& like, const Scalar& value) {
  if (is_float(like.dtype))
    return is_low_precision(like.dtype) && like.shape.rank() > 0 ? DType::f32 : like.dtype;
  if (!value.is_integer()) return DType::f32;
  return is_integer(like.dtype) ? like.dtype : DType::i64;
}

Scalar real_beside(Value like, Scalar value) {
  return is_float(like.dtype()) ? value : Scalar(value.as_double());
}

}  // namespace

std::span<const OpDef* const> binary_ops() { return pointers_to<kRows>(); }

Value scalar_like(Value like, Scalar value) {
  const DType dtype = scalar_dtype(like.type(), value);  // throws Error if `like` is empty
  return full(*like.graph, {}, value, dtype);
}
Value div(Value a, Scalar b) { return div(a, scalar_like(a, real_beside(a, b))); }
Value div(Scalar a, Value b) { return div(scalar_like(b, real_beside(b, a)), b); }
Value pow(Value a, Scalar b) {
  if (is_integer(a.dtype()) && b.is_integer() && b.as_integer() < 0)
    fail("pow: integers to the power {} are not whole: cast {} to f32 first", b.as_integer(),
         a.type().to_string());
  return pow(a, scalar_like(a, b));
}
Value pow(Scalar a, Value b) { return pow(scalar_like(b, a), b); }
Value maximum(Value a, Scalar b) { return maximum(a, scalar_like(a, b)); }
Value minimum(Value a, Scalar b) { return minimum(a, scalar_like(a, b)); }

}  // namespace genesis
