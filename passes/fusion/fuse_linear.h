// Linear layers out of their parts. A bias added after a product costs another pass over the result; as an
// input of `linear` it is added while the tile is still in a register. Activations are a pass of their own,
// for after autodiff: a fused activation keeps no pre-activation, so its gradient would compute the product
// again. In a training graph the pre-activation has a second reader, and nothing is fused.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// matmul(x, weight^T) + bias, linear(x, weight) + bias -> linear(x, weight, bias)
Graph fuse_linear(const Graph& graph, const PassContext& context);
// relu, gelu, silu of linear -> linear with that activation
Graph fuse_activation(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
