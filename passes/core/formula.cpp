#include "passes/core/formula.h"

#include "schema/ops/elementwise/cast.h"

namespace genesis::passes {
namespace {

constexpr int kMaxDepth = 16;

std::vector<Value> operands_of(const OpDef& op, std::vector<Value> inputs) {
  if (op.info.precision == Precision::kWide)
    for (Value& x : inputs)
      if (is_low_precision(x.dtype())) x = cast(x, DType::f32);
  return inputs;
}

// Returns `result` in the dtype of `type`, if both are reals.
Value fitted(Value result, const TensorType& type) {
  return is_float(result.dtype()) && is_float(type.dtype) ? cast(result, type.dtype) : result;
}

}  // namespace

std::vector<Value> write_formula(const OpDef& op, const Attributes& attributes,
                                 const std::vector<Value>& inputs) {
  std::vector<TensorType> types;
  for (const Value& input : inputs) types.push_back(input.type());
  const std::vector<TensorType> expected = infer_types(op, attributes, types);
  std::vector<Value> results =
      with_context([&] { return op.formula(attributes, operands_of(op, inputs)); },
                   [&] { return fmt::format("in the formula of op '{}'", op.name()); });
  if (results.size() != expected.size())
    fail("the formula of op '{}' returns {} values, and its rule infers {} results: correct one of them",
         op.name(), results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i])
      fail("the formula of op '{}' returns an empty value as result {}, expected {}", op.name(), i,
           expected[i].to_string());
    results[i] = fitted(results[i], expected[i]);
    if (!(results[i].type() == expected[i]))
      fail("the formula of op '{}' gives {} as result {}, and its rule infers {}: correct one of them",
           op.name(), results[i].type().to_string(), i, expected[i].to_string());
  }
  return results;
}

void check_formula_depth(const OpDef& op, int depth) {
  if (depth >= kMaxDepth)
    fail("the formula of op '{}' stands inside {} others: a formula may not lead back to its own op",
         op.name(), depth);
}

}  // namespace genesis::passes
