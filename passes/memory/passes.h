// The passes of this folder: values are made again, for less memory.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// What swiglu or a norm gives is read twice: by the next layer, and in the backward pass for that layer's
// weight gradient. Its own gradient reads what it was made from in any case (gate and up, or x) and makes the
// output again for one more write, so that nobody keeps it from the forward pass on: half as much memory
// again as gate and up, as much as x of a norm. Readers in the backward pass then wait for that gradient.
//
// Where ranks share the rows of a norm (passes/distribution/sequence_shards.cpp), those readers want the rows of all ranks: they
// are gathered again too, beside products that do not wait for them.
Graph recompute_outputs(const Graph& graph, const PassContext& context);

// Rematerialisation: under a budget for the arena, values that the backward pass reads are dropped after
// their last reader of the forward pass and computed again right before they are needed. What is computed
// again is chosen by bytes saved at the peak per operation repeated, so norms and activations come first,
// then whole layers. Every node is a function of its inputs (random ones of the RNG state), so results keep
// every bit.
//
// It is the last pass: a repeated node is an ordinary node with the author's names, "<name>.again", and a
// pass that merges equal nodes would undo it. The order of nodes in the result is one that meets the budget.
//
// The graph itself without a budget, or where it fits anyway. Throws Error with the least that could be
// reached when the budget cannot be met. Sizes must be known.
Graph rematerialise(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
