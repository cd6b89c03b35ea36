// Elementwise predicates, comparisons, logic and selection. Formulas: schema/ops/elementwise/formulas.h.
#include "schema/ops/elementwise/elementwise_rules.h"

namespace genesis {
namespace {

using namespace elementwise;

std::vector<TensorType> infer_where(A, Types in) {
  if (in[0].dtype != DType::boolean)
    fail("the condition of 'where' is {}, expected bool: compare it first", in[0].to_string());
  return {{promote_operands(in.subspan(1)), broadcast_operands(in)}};
}

constexpr OpDef kRows[] = {
    row<ops::Isnan>(infer_bool),
    row<ops::Isinf>(infer_bool),
    row<ops::Isfinite>(infer_bool),
    row<ops::LogicalNot>(infer_bool),
    row<ops::Eq>(infer_bool),
    row<ops::Ne>(infer_bool),
    row<ops::Lt>(infer_bool),
    row<ops::Le>(infer_bool),
    row<ops::Gt>(infer_bool),
    row<ops::Ge>(infer_bool),
    row<ops::LogicalAnd>(infer_bool),
    row<ops::LogicalOr>(infer_bool),
    row<ops::Where>(infer_where,
                    [](G& g, A) {
                      const Value zero = zero_like(g.dy());
                      if (g.wants(1)) g.set(1, where(g.input(0), g.dy(), zero));
                      if (g.wants(2)) g.set(2, where(g.input(0), zero, g.dy()));
                    }),
};

}  // namespace

std::span<const OpDef* const> compare_ops() { return pointers_to<kRows>(); }

Value where(Value condition, Value a, Scalar b) { return where(condition, a, scalar_like(a, b)); }
Value where(Value condition, Scalar a, Value b) { return where(condition, scalar_like(b, a), b); }

namespace {

void check_bools(std::initializer_list<Value> operands, std::string_view op) {
  for (const Value& x : operands)
    if (x.dtype() != DType::boolean)
      fail("'{}' combines bools, got {}: compare it first", op, x.type().to_string());
}

}  // namespace

Mask operator&(Value a, Value b) {
  check_bools({a, b}, "&");
  return {logical_and(a, b)};
}
Mask operator|(Value a, Value b) {
  check_bools({a, b}, "|");
  return {logical_or(a, b)};
}
Mask operator~(Value a) {
  check_bools({a}, "~");
  return {logical_not(a)};
}

}  // namespace genesis
