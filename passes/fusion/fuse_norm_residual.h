// add(r, dx of a norm's gradient) -> the gradient itself, with r as its residual. In a network with residual
// connections the gradient that goes past a norm meets the one that comes out of it; adding them while dx is
// made saves a pass over both.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph fuse_norm_residual(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
