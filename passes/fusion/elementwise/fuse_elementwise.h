// Joins elementwise nodes, and reductions over the last axis between them, into `fused` nodes. Such nodes are bound by memory:
// run one by one, each reads and writes whole tensors; run tile by tile, the values between them stay in the first-level cache.
// In f32 the results keep their bits; in low precision, values inside a region are not rounded.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph fuse_elementwise(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
