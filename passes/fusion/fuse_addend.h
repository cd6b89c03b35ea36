// add(product, r) -> the product with r as its addend. A sum made while the tile is still in registers costs
// one read of r; made afterwards it costs a pass over three tensors. And the result may be written over r, so
// residual streams, sums of gradients and micro-batches that add up take no memory of their own. What ranks sum along an axis
// takes an addend in the same way, where the target's exchange does (GPUs).
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph fuse_addend(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
