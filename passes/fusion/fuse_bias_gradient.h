// matmul(dy^T, x) and sum(dy) over the same rows -> matmul with bias_grad: the gradients of a linear layer by
// its weight and its bias. A bias's gradient alone reads all of dy again; a GPU can sum it while it passes
// through the product, and starts one kernel less. Only where starting one is dear: on a CPU it comes to the
// same.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph fuse_bias_gradient(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
