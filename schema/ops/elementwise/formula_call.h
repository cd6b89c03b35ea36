// Says which formula an elementwise node calls, and with which numbers. Only this code knows how attributes become parameters of
// the functions in schema/ops/elementwise/formulas.h.
#pragma once

#include <array>

#include "schema/graph/op.h"

namespace genesis {

struct FormulaCall {
  std::string_view name;  // name of a function in formulas.h or of a primitive that they use
  std::array<double, 2> parameters{};
  int num_parameters = 0;
};

FormulaCall formula_of(const OpDef& op, const Attributes& attributes);

// Returns the dtype in which an elementwise node computes: the dtype of its result or, if that is bool, of its operands.
DType formula_dtype(const OpDef& op, Types inputs, const TensorType& output);

}  // namespace genesis
