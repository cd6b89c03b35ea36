// The passes of this folder: ranks share the work and the states of an entry point.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// From a graph that names axes of a mesh to the graph of one rank. Without ranks along an axis its collectives go; with
// some, an all_reduce or reduce_scatter of many tensors (the gradients of a training step) is cut into buckets (Target::bucket_bytes), each placed where its last
// tensor is made, so that it travels while the backward pass goes on. (As DistributedDataParallel does, Li et al. 2020,
// but without copies: the tensors of a bucket travel together from where they are.)
//
// Of an embedding's gradient the rows travel, with their indices, and not the table they are summed into, where that is less:
// a table that is also the head's weight is exchanged when the backward pass begins, with the head's gradient, and not after it.
//
// Throws Error that names the node where a collective was made for another number of ranks than the mesh has.
Graph distribute(const Graph& graph, const PassContext& context);

// Weights of which this rank has a part alone (ZeRO stage 3, passes/distribution/optimizer_shards.h): who reads one
// reads what an all_gather makes of the parts. Where a cast reads it the parts are cast and then gathered, so that
// they travel in the dtype of the computation; of weights kept in parts the rounded one is what a cast gives. Every weight has one
// gather in each dtype; place_gathers() says when.
Graph gather_weights(const Graph& graph, const PassContext& context);

// The part of an entry point that one of the ranks along "tensor" computes.
//
// States that the context's storage keeps as shards along that axis are read and written as this rank's part. From there on
// every node whose operands are parts computes a part, as its factors say (sharding/factors.h); where results are sums over what
// is shared, an all_reduce adds up the ranks' sums. What a node or an output wants whole is gathered from all ranks.
Graph partition(const Graph& graph, const PassContext& context);

// When weights of which every rank has a part are gathered: a layer's together, while the layer ahead of it computes, and
// again for the backward pass instead of being kept for it (ZeRO stage 3; as FSDP does, Zhao et al. 2023, arXiv:2304.11277,
// but as nodes of the graph, whose memory and streams are planned like others').
//
// The nodes that read gathered weights, in the graph's order, are stages: one for each run of nodes that read the same
// layer's. A layer is what names up to their first number say, `model.layers.3`; weights without a number are one. Each
// stage gets a gather of its own, of what it reads, which stands before the first node of the stage ahead; and copies of
// the nodes that make nothing but another form of weights (reshape, cast, concat). What a stage reads is so dead
// behind it.
//
// It stands behind every pass that makes equal nodes one. Orders of nodes keep a gather before the node it stands
// before (passes/memory/node_order.h).
Graph place_gathers(const Graph& graph, const PassContext& context);

// What ranks along "tensor" would all compute alike between two layers that they share, each for a part of the tokens
// (sequence parallelism, Korthikanti et al. 2022, arXiv:2205.05198): the all_reduce behind a layer becomes a reduce_scatter, norms,
// residual sums and dropout work on one Nth of the rows, and an all_gather stands before what wants them whole, such as a
// layer of which each rank has a part. The two exchange what the all_reduce did, and what the backward pass keeps is one Nth.
//
// Tokens are the rows of what is summed: all its dimensions but the last. A rank's part is a run of them, whatever sequence they
// are from (sharding/row_rules.h). Gradients of norms' weights are sums over the rows; the ranks add them up, all in one
// exchange. Where ranks do not divide the tokens, or a step would become longer by an estimate (with a memory budget by more than a tenth), the
// all_reduce stays, and debug says so.
// What gathers again for the backward pass, instead of keeping what was gathered, is passes/memory/recompute_outputs.
//
// Of what partition gives.
Graph shard_sequence(const Graph& graph, const PassContext& context);

// The part of an optimizer's work that one of the ranks along "data" does.
//
// The norm of averaged gradients: each rank sums the squares of its part of every gradient whose elements the ranks divide,
// and the sums are added up over the ranks. So every run of so many ranks has the same bits, whatever it shards.
//
// Updates of moments that the context's storage keeps as shards: a gradient that only they and norms read travels by
// reduce_scatter instead of all_reduce; the update works on the flat part of parameter, gradient and moments that is this
// rank's; and the new parameters are gathered from all ranks, many at a time. The result is that of whole updates, bit for
// bit, where a reduce_scatter adds the ranks as an all_reduce does. From stage 2 on what is exchanged of a gradient that is a sum
// over micro-batches is each of them, as soon as it is made, so that no whole gradient waits for the next: the parts are
// summed, which rounds otherwise. (ZeRO: Rajbhandari et al. 2020, arXiv:1910.02054.)
Graph shard_optimizer(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
