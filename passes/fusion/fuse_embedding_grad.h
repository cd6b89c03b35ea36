// add(x, embedding_grad(indices, dy)) -> index_add(x, indices, dy). A language model whose head shares the
// embedding's weights sums two gradients of the whole table; of the embedding's, only the rows of the batch are
// not zero, so they are added to the head's in place instead.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph fuse_embedding_grad(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
