// One entry point for weights that are kept as halves, as PassContext::split says (passes/precision/weight_split.h):
// casts of them become the upper half or a view of it, updates of Adam become adam_update_halves, and whoever
// reads f32 gets it joined. Without a split nothing changes.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph split_weights(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
