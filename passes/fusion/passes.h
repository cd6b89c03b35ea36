// The passes of this folder replace several ops by one.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Gives convolutions and pooling in 16 bits their channels last if the first choice of the target for them takes that layout, and
// likewise the elementwise ops, reductions by axes and concatenations between them, forward and backward. Products of convolutions
// then read rows of channels, as tensor cores want them. Permutes are left where a model asks for channels behind the batch, and
// for weights with a window of more than one element.
Graph channels_last(const Graph& graph, const PassContext& context);

// On CPUs, layers whose weights are states become convolutions over their rows with packed weights, if they have many rows, sizes
// are fixed, and no attention is causal: a language model reads its weights for one token, too, and would keep them twice.
Graph pack_weights(const Graph& graph, const PassContext& context);

// add(product, r) -> the product with r as its addend. An addition to a tile that is still in registers costs one read of r; a
// separate addition costs a pass over three tensors. The result may also be written over r, so residual streams, sums of
// gradients and sums over micro-batches take no memory of their own. A sum over ranks takes an addend in the same way if the
// target supports it (GPUs).
Graph fuse_addend(const Graph& graph, const PassContext& context);

// Replaces attention that is written as products and a softmax by the op `attention`, which keeps the scores in fast memory:
// the [batch, heads, queries, keys] tensor is never written, neither forward nor backward, and masked blocks of a causal
// attention are not computed.
//
// Matches softmax(scale * q k^T [+ mask]) v. The scale may be applied to the scores by a factor or a quotient, to q and to k, or be
// missing. Queries without keys may be set to zeros, as the decomposition of torch's scaled_dot_product_attention does.
// The mask may be added as numbers, or applied by where(mask, scores, -inf), which is causal if the mask is tril of ones, or by
// causal_softmax. q [batch, heads, queries, size], k [batch, heads, keys, size], v likewise.
Graph fuse_attention(const Graph& graph, const PassContext& context);

// Lets attention read what a foreign program prepared for it: key heads that were repeated for the query heads that share them
// (expand between two reshapes, in the layout [batch, heads, time, size]), and a constant mask that hides nothing or the keys behind
// each query. Kernels then read each head once, and skip hidden blocks.
Graph fuse_attention_operands(const Graph& graph, const PassContext& context);

// matmul(dy^T, x) and sum(dy) over the same rows -> matmul with the epilogue bias_grad: the gradients of a linear layer's
// weight and bias. Alone, a bias's gradient reads all of dy again; a GPU can sum dy while it passes through the product, and
// saves a launch. Applied only if a kernel of the target does both.
Graph fuse_bias_gradient(const Graph& graph, const PassContext& context);

// relu(batch_norm(x)) and relu(batch_norm(x) + r) become one batch_norm, before autodiff: its gradient finds out by itself where
// the result was positive, so that neither the norm's own result nor the masked gradient is written. `r` is a residual.
Graph fuse_batch_norm(const Graph& graph, const PassContext& context);

// attention(rope(q, p), dynamic_update_slice(k_cache, rope(k, p), start), dynamic_update_slice(v_cache, v, start), key_length =
// start + 1) of one token becomes one cached_attention, with or without rope. p equals start, which is one number, or one for
// each row of the batch. A decoding step is a chain of tiny kernels, each of which takes longer to launch than to run.
Graph fuse_cached_attention(const Graph& graph, const PassContext& context);

// The choice of experts (scores, the best groups, topk, factors, sort_groups) becomes one `route`, and their products with biases,
// gated activation and weighted sum, with what is added to it, one `experts`, if a kernel of the target computes these at once: for
// the few rows of a decoding step. With more rows the products alone take longer than all launches. expert_patterns.h finds both.
Graph fuse_experts(const Graph& graph, const PassContext& context);

// Makes what follows a convolution its epilogue: factors and sums by channel, such as a batch norm with its running statistics, a
// residual and relu, relu6 or hardswish, on GPUs also silu and sigmoid. They change sums that are in registers, and the
// convolution's result is written once. Vectors of channels are combined in small nodes of their own.
Graph fuse_convolution(const Graph& graph, const PassContext& context);

// add(x, embedding_grad(indices, dy)) -> index_add(x, indices, dy). A language model whose head shares the embedding's weights
// sums two gradients of the whole table. In that of the embedding only the rows of the batch are nonzero, so they are added in
// place to that of the head.
Graph fuse_embedding_grad(const Graph& graph, const PassContext& context);

// Builds linear layers from their ops. A bias that is added after a product costs another pass over the result; as an input of
// `linear` it is added while the tile is still in registers. Activations have a pass of their own, which runs after autodiff: a
// fused activation does not keep its input, so its gradient would have to compute the product again. In a training graph the
// gradient also reads this input, so nothing is fused.
//
// matmul(x, weight^T) + bias, linear(x, weight) + bias -> linear(x, weight, bias)
Graph fuse_linear(const Graph& graph, const PassContext& context);
// relu, gelu, silu of linear -> linear with that activation
Graph fuse_activation(const Graph& graph, const PassContext& context);

// Replaces the last projection of a language model and its cross-entropy by one op that works in blocks of rows: the logits
// [tokens, vocabulary], which at a vocabulary of 150,000 are most of the memory of a training step, never exist as a whole. The
// gradients are computed in the same pass over the logits. Runs before autodiff, which would read the logits again.
//
// Matches cross_entropy(linear(x, weight), target), also through a reshape of the logits, for class indices, without class
// weights, and for enough classes to be worthwhile.
Graph fuse_linear_cross_entropy(const Graph& graph, const PassContext& context);

// Makes rms_norm(x) the prologue of the layer that reads it, if nothing else reads it and a kernel of the target does both: the
// norm of one row takes next to no time, but its launch does.
Graph fuse_norm_linear(const Graph& graph, const PassContext& context);

// add(r, dx of a norm's gradient) -> the gradient itself with r as its residual. In a network with residual connections, the
// gradient that bypasses a norm is added to the gradient of the norm; adding it while dx is computed saves a pass over both.
Graph fuse_norm_residual(const Graph& graph, const PassContext& context);

// batch_norm_grad(x, dy + dy2, ...) -> batch_norm_grad with two gradients: where a residual stream splits, the sum of what comes back
// is not written. Only with channels last, behind a relu and an addend.
Graph fuse_gradient_sums(const Graph& graph, const PassContext& context);

// Replaces hand-written normalizations, as most model code has them, by layer_norm and rms_norm: one pass over memory instead of
// seven, statistics in f32, and hand-written gradients for autodiff. All norms are over the last axis.
//
// x * rsqrt(mean(x^2) + eps), x / sqrt(mean(x^2) + eps) -> rms_norm(x)
// d * rsqrt(mean(d^2) + eps), d / sqrt(...), with d = x - mean(x); also with var(x) without correction -> layer_norm(x)
// norm * weight, layer_norm + bias -> the norm with this weight, this bias
Graph fuse_norms(const Graph& graph, const PassContext& context);

// Builds SwiGLU and SiLU from their ops: silu(gate) * up as one op reads gate and up once and writes once, forward and
// backward, while separate ops would store the activation in between.
//
// x * sigmoid(x) -> silu(x); silu(gate) * up -> swiglu(gate, up)
Graph fuse_swiglu(const Graph& graph, const PassContext& context);

// Fuses swiglu and its gradient into the epilogue of the neighboring product, in training steps in bf16 on a GPU:
//   linear(x, w), then swiglu of the result               -> linear with_swiglu
//   matmul(dy, w), then swiglu_grad of gate, up and it    -> matmul with swiglu_grad
// swiglu and its gradient move much memory and compute little. In the epilogue of a product they cost only what they write, and
// the gradient with respect to swiglu's output is never written. The plan needs no more memory: results that overwrite the
// forward pass's gate and up still do.
Graph fuse_swiglu_products(const Graph& graph, const PassContext& context);

// The numbers of rows of cache updates and attention, starts and lengths [1], become scalars if there is one row. A model's entry
// points have one number for each row, however many there are; the fastest kernels of a single text take scalars. A reshape
// computes nothing.
Graph one_row_starts(const Graph& graph, const PassContext& context);

// A row of a cache that is cut out, gets new tokens and is put back becomes an update of the whole cache, in place, of which the row is
// cut out behind: only the new tokens are written, and not the whole row. The cache is then one sequence of rows: place = row *
// positions + start.
Graph update_rows(const Graph& graph, const PassContext& context);
// x * cos(a) + concat(-x[size/2:], x[:size/2]) * sin(a) with a = concat(p f, p f) -> rope(x, positions p, frequencies f): the rotation of
// transformers' models, x [batch, heads, time, size]. The angles are computed in f64, not in the dtype of the program.
Graph fuse_rope(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
