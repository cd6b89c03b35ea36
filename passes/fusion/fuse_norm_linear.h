#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Layers that read rms_norm(x), where nobody else does and x has few rows, get it as their prologue: the norm
// of one row takes no time, but starting it does.
Graph fuse_norm_linear(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
