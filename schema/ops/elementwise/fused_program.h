// The program inside a `fused` node, parsed and typed by the ops' own rules. Backends build it from a node, and the fusion pass
// builds it to check the node that it is about to write. Values are numbered: inputs first, then the result of each op.
#pragma once

#include "schema/graph/op.h"

namespace genesis {

// One line of a program: an op over values with smaller numbers.
struct FusedOp {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<int> operands;
  TensorType type;  // type of the only result
};

struct FusedProgram {
  std::vector<TensorType> inputs;
  std::vector<FusedOp> ops;
  std::vector<int> outputs;
  Shape space;            // shape to which all values broadcast: the indices over which the program runs
  bool has_rows = false;  // reduces over the last axis, so a row must not be split

  int num_values() const { return static_cast<int>(inputs.size() + ops.size()); }
  const TensorType& type(int value) const;
};

// Parses the attributes of a `fused` node (schema/ops/elementwise/fused.h). Throws Error that names the line.
FusedProgram parse_fused_program(const std::vector<std::string>& body, const std::vector<int64_t>& outputs,
                                 Types inputs);
// Returns a program of one op, by which an elementwise node runs alone.
FusedProgram single_op_program(const OpDef& op, const Attributes& attributes, Types inputs);

std::string fused_op_text(const OpDef& op, const Attributes& attributes, const std::vector<int>& operands);

// Returns true for sum, mean, max or min over the last of `rank` axes, if the axis is kept with size 1.
bool is_row_reduction(const OpDef& op, const Attributes& attributes, int rank);
// Returns true if the op may stand in a body: it is elementwise, a row reduction, `full` or `expand`.
bool is_fusable(const OpDef& op, const Attributes& attributes, int rank);

}  // namespace genesis
