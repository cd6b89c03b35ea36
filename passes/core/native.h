// Asks a target whether one of its kernels runs a node, before a pass makes that node out of several.
#pragma once

#include <algorithm>

#include "passes/core/pass.h"

namespace genesis::passes {

// Returns whether a kernel of its own runs the node on the target, which must be set. Returns false if sizes are unknown.
inline bool runs_natively(const PassContext& context, const OpDef& op, const Attributes& attributes,
                          const std::vector<TensorType>& inputs) {
  const auto is_known = [](const TensorType& type) { return type.shape.is_constant(); };
  if (!std::ranges::all_of(inputs, is_known)) return false;
  const std::vector<TensorType> outputs = infer_types(op, attributes, inputs);
  return context.target->runs_natively(context.target->query(op, attributes, inputs, outputs));
}

}  // namespace genesis::passes
