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

constexpr OpDef kIsnan = row<ops::Isnan>(infer_bool);
constexpr OpDef kIsinf = row<ops::Isinf>(infer_bool);
constexpr OpDef kIsfinite = row<ops::Isfinite>(infer_bool);
constexpr OpDef kLogicalNot = row<ops::LogicalNot>(infer_bool);
constexpr OpDef kEq = row<ops::Eq>(infer_bool);
constexpr OpDef kNe = row<ops::Ne>(infer_bool);
constexpr OpDef kLt = row<ops::Lt>(infer_bool);
constexpr OpDef kLe = row<ops::Le>(infer_bool);
constexpr OpDef kGt = row<ops::Gt>(infer_bool);
constexpr OpDef kGe = row<ops::Ge>(infer_bool);
constexpr OpDef kLogicalAnd = row<ops::LogicalAnd>(infer_bool);
constexpr OpDef kLogicalOr = row<ops::LogicalOr>(infer_bool);
constexpr OpDef kWhere = row<ops::Where>(infer_where, [](G& g, A) {
  const Value zero = zero_like(g.dy());
  if (g.wants(1)) g.set(1, where(g.input(0), g.dy(), zero));
  if (g.wants(2)) g.set(2, where(g.input(0), zero, g.dy()));
});

constexpr const OpDef* kOps[] = {&kIsnan, &kIsinf, &kIsfinite, &kLogicalNot, &kEq,        &kNe,   &kLt,
                                 &kLe,    &kGt,    &kGe,       &kLogicalAnd, &kLogicalOr, &kWhere};

}  // namespace

std::span<const OpDef* const> compare_ops() { return kOps; }

Value isnan(Value x) { return emit(kIsnan, {x}); }
Value isinf(Value x) { return emit(kIsinf, {x}); }
Value isfinite(Value x) { return emit(kIsfinite, {x}); }
Value logical_not(Value x) { return emit(kLogicalNot, {x}); }
Value eq(Value a, Value b) { return emit(kEq, {a, b}); }
Value ne(Value a, Value b) { return emit(kNe, {a, b}); }
Value lt(Value a, Value b) { return emit(kLt, {a, b}); }
Value le(Value a, Value b) { return emit(kLe, {a, b}); }
Value gt(Value a, Value b) { return emit(kGt, {a, b}); }
Value ge(Value a, Value b) { return emit(kGe, {a, b}); }
Value logical_and(Value a, Value b) { return emit(kLogicalAnd, {a, b}); }
Value logical_or(Value a, Value b) { return emit(kLogicalOr, {a, b}); }
Value where(Value condition, Value a, Value b) { return emit(kWhere, {condition, a, b}); }

}  // namespace genesis
