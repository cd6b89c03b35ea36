// The formula of an op: its results, written with other ops, as the rules of the op may have it (schema/graph/op.h). Autodiff
// differentiates it, and passes/fusion/elementwise/formulas.h puts it in the place of a node.
#pragma once

#include "schema/graph/graph.h"

namespace genesis::passes {

// Adds the formula of `op`, which has one, to the graph of `inputs`. Returns the results, one for each that the op's own rule infers,
// of the same type: reals are cast to it. The formula of an op of class Precision::kWide computes in f32 at least. Throws Error that
// names the op if the formula gives other results.
std::vector<Value> write_formula(const OpDef& op, const Attributes& attributes,
                                 const std::vector<Value>& inputs);

// Throws Error that names the op if its formula would be written inside more formulas than a definition can have that ends.
void check_formula_depth(const OpDef& op, int depth);

}  // namespace genesis::passes
