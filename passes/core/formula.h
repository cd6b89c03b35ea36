// The formula of an op: its results, written with other ops, as the rules of the op may have it (schema/graph/op.h). Autodiff
// differentiates it, and passes/fusion/elementwise/expand_formulas.h puts it in the place of a node.
#pragma once

#include <map>
#include <set>

#include "schema/graph/graph.h"

namespace genesis::passes {

// Records which ops the formulas written so far consist of, to find one that leads back to its own op and thus has no end.
class FormulaParts {
 public:
  // Records that the formula of `op` contains `part`. Throws Error that names the ops on the way if `part` leads back to `op`.
  void add(const OpDef& op, const OpDef& part);

 private:
  std::vector<const OpDef*> way(const OpDef* from, const OpDef* to) const;

  std::map<const OpDef*, std::set<const OpDef*>> parts_;  // ops that have formulas themselves
};

// Adds the formula of `op`, which has one, to the graph of `inputs`. Returns the results, one for each that the op's own rule infers,
// of the same type: reals are cast to it. The formula of an op of class Precision::kWide computes in f32 at least. Records the formula
// in `parts`. Throws Error that names the op if the formula gives other results, leads back to its op, or draws random numbers: a
// formula may be written more than once, and would draw others each time.
std::vector<Value> write_formula(const OpDef& op, const Attributes& attributes,
                                 const std::vector<Value>& inputs, FormulaParts& parts);

}  // namespace genesis::passes
