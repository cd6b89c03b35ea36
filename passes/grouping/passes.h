// The passes of this folder: nodes that are alike become one.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Casts of weights to low precision -> cast_group, and concatenations of such casts with them. A training
// step in low precision casts every weight once; on a GPU, starting a kernel for each costs as much as the
// smaller half of the work. A group has weights that are cast one after the other, about a layer of a large
// model, so that it stands close to its readers and may run beside other work. Under a memory budget groups
// are made only where the plan still fits.
Graph group_casts(const Graph& graph, const PassContext& context);

// adam_update nodes that share lr, step and scale -> one of all their parameters. A model has hundreds of
// parameters, most of them small: on a GPU, starting a kernel for each costs more than the work. Only updates
// with a `scale` (clipping by the norm of all gradients) are grouped: their gradients are alive together
// anyway, while others are done with one by one and would make the peak of memory higher.
Graph group_updates(const Graph& graph, const PassContext& context);

// Linear layers that read one x (q, k and v; gate and up) become one step. With few rows of x a layer is over
// as soon as its weights are read, and starting each by itself costs as much as the reading: a device then
// wants one large step. No weight is moved; all layers together read what they read before. How many rows are
// few is for the target's kernels to say: those that take several weights (Target::is_native).
//
// swiglu(linear(x, gate), linear(x, up)) -> linear(x, gate, up) with the epilogue swiglu, where nothing else
//   reads the two
// linear(x, a), linear(x, b), ... -> linear(x, a, b, ...), alike in activation and in having a bias
Graph merge_linear(const Graph& graph, const PassContext& context);

// Layers that share x and meet again in one op become one product each way: q, k and v, whose heads attention
// reads side by side, and gate and up of swiglu. One product of a training step instead of three or two fills
// a GPU better, dx needs no sum, and what stood between them (rotations, bias gradients) is one step too.
//
// Only where the weights are casts of states: they are written once per step anyway, so writing them one
// behind the other costs nothing. States keep their names and shapes; a gradient of theirs is a range of rows
// of the gradient of the whole, which is a view.
//
// To run between casting to low precision and autodiff.
Graph merge_projections(const Graph& graph, const PassContext& context);

// attention(q, k, v) of the parts of one product -> attention of that product as it is. Cutting GPT-2's
// c_attn in three writes every feature once more, and its gradient puts the three together again; attention
// reads them where they stand at no cost.
Graph pack_attention(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
