// Which formula an elementwise node calls, and with which numbers: the one place that knows how attributes
// become parameters of the functions in schema/ops/elementwise/formulas.h. Used by every backend.
#pragma once

#include <array>

#include "schema/graph/op.h"

namespace genesis {

struct FormulaCall {
  std::string_view name;  // of a function in formulas.h or of a primitive it is written with
  std::array<double, 2> parameters{};
  int num_parameters = 0;
};

FormulaCall formula_of(const OpDef& op, const Attributes& attributes);

// The dtype an elementwise node computes in: that of its result, or, where that is bool, of its operands.
DType formula_dtype(const OpDef& op, Types inputs, const TensorType& output);

}  // namespace genesis
