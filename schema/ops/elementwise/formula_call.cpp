#include "schema/ops/elementwise/formula_call.h"

#include "schema/ops/elementwise/elementwise_rules.h"

namespace genesis {

FormulaCall formula_of(const OpDef& op, const Attributes& attributes) {
  const std::string_view name = op.name();
  if (name == ops::Gelu::info.name) {
    const bool exact = from_attributes<ops::Gelu>(attributes).approximate == GeluKind::kErf;
    return {exact ? "gelu" : "gelu_tanh"};
  }
  if (name == ops::LeakyRelu::info.name)
    return {name, {from_attributes<ops::LeakyRelu>(attributes).negative_slope}, 1};
  if (name == ops::Elu::info.name) return {name, {from_attributes<ops::Elu>(attributes).alpha}, 1};
  if (name == ops::Softplus::info.name) {
    const auto op = from_attributes<ops::Softplus>(attributes);
    return {name, {op.beta, op.threshold}, 2};
  }
  if (name == ops::Clamp::info.name) {
    const auto op = from_attributes<ops::Clamp>(attributes);
    return {name, {op.min, op.max}, 2};
  }
  return {name};
}

DType formula_dtype(const OpDef& op, Types inputs, const TensorType& output) {
  const std::string_view name = op.name();
  if (output.dtype != DType::boolean || name == "cast" || name == "where") return output.dtype;
  if (name == "logical_not" || name == "logical_and" || name == "logical_or") return DType::boolean;
  const DType operands = elementwise::promote_operands(inputs);
  const bool real_only = name == "isnan" || name == "isinf" || name == "isfinite";
  return real_only ? elementwise::real(operands) : operands;
}

}  // namespace genesis
