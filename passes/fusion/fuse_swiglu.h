// SwiGLU and SiLU out of their parts: silu(gate) * up as one op reads gate and up once and writes once,
// forward and backward, where the parts would store the activation in between.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// x * sigmoid(x) -> silu(x); silu(gate) * up -> swiglu(gate, up)
Graph fuse_swiglu(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
