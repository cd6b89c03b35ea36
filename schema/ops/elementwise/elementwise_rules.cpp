#include "schema/ops/elementwise/elementwise_rules.h"

namespace genesis::elementwise {
namespace {

int category(DType t) { return is_float(t) ? 2 : is_integer(t) ? 1 : 0; }

// Promotes only the operands of rank 0 (`scalars`) or only the others.
std::optional<DType> promote_some(Types in, bool scalars) {
  std::optional<DType> result;
  for (const TensorType& type : in)
    if ((type.shape.rank() == 0) == scalars) result = result ? promote(*result, type.dtype) : type.dtype;
  return result;
}

}  // namespace

DType promote_operands(Types in) {
  const auto tensors = promote_some(in, false), scalars = promote_some(in, true);
  if (!tensors || !scalars) return tensors ? *tensors : *scalars;
  return category(*scalars) > category(*tensors) ? promote(*tensors, *scalars) : *tensors;
}

Shape broadcast_operands(Types in) {
  Shape shape = in[0].shape;
  for (const TensorType& type : in.subspan(1)) shape = broadcast(shape, type.shape);
  return shape;
}

std::vector<TensorType> infer_promoted(A, Types in) {
  return {{promote_operands(in), broadcast_operands(in)}};
}

std::vector<TensorType> infer_real(A, Types in) {
  return {{real(promote_operands(in)), broadcast_operands(in)}};
}

std::vector<TensorType> infer_bool(A, Types in) {
  promote_operands(in);
  return {{DType::boolean, broadcast_operands(in)}};
}

std::vector<TensorType> infer_numeric(A a, Types in) {
  if (promote_operands(in) == DType::boolean)
    fail("expected numbers, got {}: cast the operand first", in[0].to_string());
  return infer_promoted(a, in);
}

}  // namespace genesis::elementwise
