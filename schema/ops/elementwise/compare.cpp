// Elementwise predicates, comparisons, logic and selection. Formulas: schema/ops/elementwise/formulas.h.
#include "schema/ops/elementwise/elementwise_rules.h"

namespace genesis {
namespace {

using namespace elementwise;

constexpr OpDef test(std::string_view name, std::string_view doc) {
  return make_row({name, doc, 1, infer_bool});
}
constexpr OpDef compare(std::string_view name, std::string_view doc, bool commutative = false) {
  return make_row({name, doc, 2, infer_bool, nullptr, Precision::kFollow, commutative});
}

std::vector<TensorType> infer_where(A, Types in) {
  if (in[0].dtype != DType::boolean)
    fail("the condition of 'where' is {}, expected bool: compare it first", in[0].to_string());
  return {{promote_operands(in.subspan(1)), broadcast_operands(in)}};
}

constexpr OpDef kIsnan = test("isnan", "Whether x is NaN.");
constexpr OpDef kIsinf = test("isinf", "Whether x is infinite.");
constexpr OpDef kIsfinite = test("isfinite", "Whether x is neither infinite nor NaN.");
constexpr OpDef kLogicalNot = test("logical_not", "Whether x is 0.");
constexpr OpDef kEq = compare("eq", "a == b.", true);
constexpr OpDef kNe = compare("ne", "a != b.", true);
constexpr OpDef kLt = compare("lt", "a < b.");
constexpr OpDef kLe = compare("le", "a <= b.");
constexpr OpDef kGt = compare("gt", "a > b.");
constexpr OpDef kGe = compare("ge", "a >= b.");
constexpr OpDef kLogicalAnd = compare("logical_and", "Whether neither a nor b is 0.", true);
constexpr OpDef kLogicalOr = compare("logical_or", "Whether a or b is not 0.", true);
constexpr OpDef kWhere =
    make_row({"where", "a where the condition holds, else b.", 3, infer_where, [](G& g, A) {
                const Value zero = zero_like(g.dy());
                if (g.wants(1)) g.set(1, where(g.input(0), g.dy(), zero));
                if (g.wants(2)) g.set(2, where(g.input(0), zero, g.dy()));
              }});

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
