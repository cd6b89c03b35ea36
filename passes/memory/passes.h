// The passes of this folder recompute values to save memory.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// The output of swiglu or of a norm is read twice: by the next layer, and in the backward pass by that layer's weight gradient.
// The op's own gradient reads the op's inputs anyway (gate and up, or x) and can recompute the output for one more write, so
// that it need not be kept from the forward pass: that saves half as much memory as gate and up, or as much as the x of a norm.
// Readers in the backward pass then wait for that gradient.
//
// If ranks share the rows of a norm (passes/distribution/sequence_shards.cpp), these readers need the rows of all ranks: the
// rows are gathered again, beside products that do not wait for them.
Graph recompute_outputs(const Graph& graph, const PassContext& context);

// Rematerialization: under a budget for the arena, values that the backward pass reads are dropped after their last reader of
// the forward pass and recomputed right before they are needed. They are chosen by bytes saved at the peak per operation
// repeated, so norms and activations come first, then whole layers. Every node is a function of its inputs (random ones of the
// RNG state), so results keep every bit.
//
// It runs after all passes that merge equal nodes, because they would undo it: a repeated node is an ordinary node with the
// author's names, "<name>.again". The nodes of the result are in an order that meets the budget.
//
// Returns the graph itself without a budget, or if it fits anyway. Throws an Error with the least memory that is possible if
// the budget cannot be met. Sizes must be known.
Graph rematerialize(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
