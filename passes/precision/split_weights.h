// One entry point for weights that are kept as halves, as PassContext::storage says (passes/precision/weights_as_halves.h):
// casts of them become the upper half or a view of it, updates of Adam become updates of halves, and whoever
// reads f32 gets it joined. Without such weights nothing changes.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph split_weights(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
