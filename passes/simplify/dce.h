// Dead code elimination. Nodes that neither an output nor an update needs cost time and memory; autodiff
// leaves such nodes behind (gradients nobody asked for), and so do rewrites whose last reader went away.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph eliminate_dead_code(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
