// Rematerialisation: under a budget for the arena, values that the backward pass reads are dropped after
// their last reader of the forward pass and computed again right before they are needed. What is computed
// again is chosen by bytes saved at the peak per operation repeated, so norms and activations come first,
// then whole layers. Every node is a function of its inputs (random ones of the RNG state), so results keep
// every bit.
//
// It is the last pass: a repeated node is an ordinary node with the author's names, "<name>.again", and a
// pass that merges equal nodes would undo it. The order of nodes in the result is one that meets the budget.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// The graph itself without a budget, or where it fits anyway. Throws Error with the least that could be
// reached when the budget cannot be met. Sizes must be known.
Graph rematerialise(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
