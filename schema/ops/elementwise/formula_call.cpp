#include "schema/ops/elementwise/formula_call.h"

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise_rules.h"

namespace genesis {

FormulaCall formula_of(const OpDef& op, const Attributes& attributes) {
  const std::string_view name = op.name();
  if (is<ops::Gelu>(op)) {
    const bool exact = from_attributes<ops::Gelu>(attributes).approximate == GeluKind::kErf;
    return {exact ? "gelu" : "gelu_tanh"};
  }
  if (is<ops::LeakyRelu>(op)) return {name, {from_attributes<ops::LeakyRelu>(attributes).negative_slope}, 1};
  if (is<ops::Elu>(op)) return {name, {from_attributes<ops::Elu>(attributes).alpha}, 1};
  if (is<ops::Softplus>(op)) {
    const auto op = from_attributes<ops::Softplus>(attributes);
    return {name, {op.beta, op.threshold}, 2};
  }
  if (is<ops::Clamp>(op)) {
    const auto op = from_attributes<ops::Clamp>(attributes);
    return {name, {op.min, op.max}, 2};
  }
  return {name};
}

DType formula_dtype(const OpDef& op, Types inputs, const TensorType& output) {
  if (output.dtype != DType::boolean || is<ops::Cast, ops::Where>(op)) return output.dtype;
  if (is<ops::LogicalNot, ops::LogicalAnd, ops::LogicalOr>(op)) return DType::boolean;
  const DType operands = elementwise::promote_operands(inputs);
  return is<ops::Isnan, ops::Isinf, ops::Isfinite>(op) ? elementwise::real(operands) : operands;
}

}  // namespace genesis
