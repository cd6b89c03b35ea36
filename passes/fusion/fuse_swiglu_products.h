// Products that swiglu stands beside take it in, in training steps in bf16 on a GPU:
//   linear(x, w), then swiglu of it      -> linear with_swiglu
//   matmul(dy, w), then swiglu_grad by it -> matmul with swiglu_grad
// swiglu and its gradient move much memory and compute little; while a product has its tile in registers they
// cost what they write, and the gradient by swiglu's output is never written at all. Memory planned stays the
// same: what is written over a forward pass's gate and up is written there still.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph fuse_swiglu_products(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
