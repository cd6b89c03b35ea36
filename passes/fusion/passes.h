// The passes of this folder: several ops become one.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// add(product, r) -> the product with r as its addend. A sum made while the tile is still in registers costs
// one read of r; made afterwards it costs a pass over three tensors. And the result may be written over r, so
// residual streams, sums of gradients and micro-batches that add up take no memory of their own. What ranks sum along an axis
// takes an addend in the same way, where the target's exchange does (GPUs).
Graph fuse_addend(const Graph& graph, const PassContext& context);

// Attention written out as products and a softmax into the op `attention`, which keeps the scores in fast
// memory: the [batch, heads, queries, keys] tensor is never written, neither forward nor backward, and masked
// blocks of a causal attention are not computed.
//
// softmax(scale * q k^T [+ mask]) v, with the scale on the scores, on q, as a quotient or missing; the mask
// added as numbers, or by where(mask, scores, -inf), which is causal when the mask is tril of ones; or
// causal_softmax. q [batch, heads, queries, size], k [batch, heads, keys, size], v likewise.
Graph fuse_attention(const Graph& graph, const PassContext& context);

// matmul(dy^T, x) and sum(dy) over the same rows -> matmul with bias_grad: the gradients of a linear layer by
// its weight and its bias. A bias's gradient alone reads all of dy again; a GPU can sum it while it passes
// through the product, and starts one kernel less. Only where starting one is dear: on a CPU it comes to the
// same.
Graph fuse_bias_gradient(const Graph& graph, const PassContext& context);

// attention(rope(q, p), dynamic_update_slice(k_cache, rope(k, p), start), dynamic_update_slice(v_cache, v,
// start), key_length = start + 1) of one token becomes one cached_attention, with rope or without, where p is
// start: one number, or one for each row of the batch. A decoding step is a chain of tiny kernels, and each of them costs more to start than to run.
Graph fuse_cached_attention(const Graph& graph, const PassContext& context);

// add(x, embedding_grad(indices, dy)) -> index_add(x, indices, dy). A language model whose head shares the
// embedding's weights sums two gradients of the whole table; of the embedding's, only the rows of the batch are
// not zero, so they are added to the head's in place instead.
Graph fuse_embedding_grad(const Graph& graph, const PassContext& context);

// Linear layers out of their parts. A bias added after a product costs another pass over the result; as an
// input of `linear` it is added while the tile is still in a register. Activations are a pass of their own,
// for after autodiff: a fused activation keeps no pre-activation, so its gradient would compute the product
// again. In a training graph the pre-activation has a second reader, and nothing is fused.
//
// matmul(x, weight^T) + bias, linear(x, weight) + bias -> linear(x, weight, bias)
Graph fuse_linear(const Graph& graph, const PassContext& context);
// relu, gelu, silu of linear -> linear with that activation
Graph fuse_activation(const Graph& graph, const PassContext& context);

// The last projection of a language model and its cross-entropy as one op that works in blocks of rows:
// logits of [tokens, vocabulary] never exist whole, which at a vocabulary of 150,000 is most of the memory of
// a training step. Its gradients come out of the same pass over the logits. Runs before autodiff, which would
// read the logits again.
//
// cross_entropy(linear(x, weight), target), also through a reshape of the logits, for class indices, without
// class weights, and with enough classes to be worth it.
Graph fuse_linear_cross_entropy(const Graph& graph, const PassContext& context);

// Layers that read rms_norm(x), where nobody else does and x has few rows, get it as their prologue: the norm
// of one row takes no time, but starting it does.
Graph fuse_norm_linear(const Graph& graph, const PassContext& context);

// add(r, dx of a norm's gradient) -> the gradient itself, with r as its residual. In a network with residual
// connections the gradient that goes past a norm meets the one that comes out of it; adding them while dx is
// made saves a pass over both.
Graph fuse_norm_residual(const Graph& graph, const PassContext& context);

// Normalisations written out by hand, as most model code does, into layer_norm and rms_norm: seven passes
// over memory become one, statistics are f32, and autodiff uses their hand-written gradients.
//
// x * rsqrt(mean(x^2) + eps), x / sqrt(mean(x^2) + eps) -> rms_norm(x)
// d * rsqrt(mean(d^2) + eps), d / sqrt(...), with d = x - mean(x); also with var(x) without correction ->
// layer_norm(x) and then norm * weight, layer_norm + bias -> the norm with weight and bias. All over the last
// axis.
Graph fuse_norms(const Graph& graph, const PassContext& context);

// SwiGLU and SiLU out of their parts: silu(gate) * up as one op reads gate and up once and writes once,
// forward and backward, where the parts would store the activation in between.
//
// x * sigmoid(x) -> silu(x); silu(gate) * up -> swiglu(gate, up)
Graph fuse_swiglu(const Graph& graph, const PassContext& context);

// Fuses swiglu and its gradient into the epilogue of the product beside them, in training steps in bf16 on a GPU:
//   linear(x, w), then swiglu of it      -> linear with_swiglu
//   matmul(dy, w), then swiglu_grad by it -> matmul with swiglu_grad
// swiglu and its gradient move much memory and compute little; while a product has its tile in registers they
// cost what they write, and the gradient by swiglu's output is never written at all. Memory planned stays the
// same: what is written over a forward pass's gate and up is written there still.
Graph fuse_swiglu_products(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
