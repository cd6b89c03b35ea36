// The last projection of a language model and its cross-entropy as one op that works in blocks of rows:
// logits of [tokens, vocabulary] never exist whole, which at a vocabulary of 150,000 is most of the memory of
// a training step. Its gradients come out of the same pass over the logits. Runs before autodiff, which would
// read the logits again.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// cross_entropy(linear(x, weight), target), also through a reshape of the logits, for class indices, without
// class weights, and with enough classes to be worth it.
Graph fuse_linear_cross_entropy(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
