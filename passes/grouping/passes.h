// The passes of this folder replace several similar nodes by one.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Casts of weights to low precision, and concatenations of such casts -> cast_group. A training step in low precision casts
// every weight once; on a GPU, launching a kernel for each costs as much as the smaller half of the work. A group contains
// weights that are cast one after the other, about a layer of a large model, so that it stays close to its readers and may run
// beside other work. Under a memory budget, groups are made only if the plan still fits.
Graph group_casts(const Graph& graph, const PassContext& context);

// adam_update nodes that share lr, step and scale -> one node for all their parameters. A model has hundreds of parameters,
// most of them small: on a GPU, launching a kernel for each costs more than the work. Only updates with a `scale` (clipping by
// the norm of all gradients) are grouped: their gradients are alive at the same time anyway. Other gradients are freed one by
// one, and a group would raise the peak of memory.
Graph group_updates(const Graph& graph, const PassContext& context);

// Linear layers that read one x (q, k and v; gate and up) become one node. With few rows of x a layer takes the time to read its
// weights, and launching each layer by itself takes as long: one large step is faster. No weight is moved; the node reads what
// the layers read. The target's kernels that take several weights decide how many rows are few (Target::is_native).
//
// swiglu(linear(x, gate), linear(x, up)) -> linear(x, gate, up) with the epilogue swiglu, if nothing else reads the two layers
// linear(x, a), linear(x, b), ... -> linear(x, a, b, ...), if activation and presence of a bias agree
Graph merge_linear(const Graph& graph, const PassContext& context);

// Layers that read the same x and whose results meet in one op become one product, forward and backward: q, k and v, whose
// heads attention reads side by side, and gate and up of swiglu. One product instead of two or three fills a GPU better, dx
// needs no sum, and the ops in between (rotations, bias gradients) become one node too.
//
// The weights must be casts of states: they are written once per step anyway, so concatenating them costs nothing. (Small
// frozen weights under LoRA adapters are copied.) States keep their names and shapes; the gradient of a state is a range of
// rows of the joint gradient, which is a view.
//
// Runs between the cast to low precision and autodiff.
Graph merge_projections(const Graph& graph, const PassContext& context);

// attention(q, k, v) of slices of one product -> attention of the whole product. Splitting GPT-2's c_attn in three writes every
// feature once more, and its gradient concatenates the three; attention reads them in place at no cost.
Graph pack_attention(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
