// The passes of this folder: ranks share the work and the states of an entry point.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Makes of a graph that names mesh axes the graph of one rank. Collectives along an axis with one rank alone are dropped. With several
// ranks an all_reduce or reduce_scatter of many tensors (the gradients of a training step) is cut into buckets (Target::bucket_bytes), each placed where its last
// tensor is made, so that it travels while the backward pass goes on. (As DistributedDataParallel does, Li et al. 2020,
// but without copies: the tensors of a bucket travel together from where they are.)
//
// Of an embedding's gradient the ranks exchange the rows with their indices, where these are fewer bytes than the table that they are
// summed into. So a table that is also the head's weight is exchanged with the head's gradient, when the backward pass begins, instead
// of at its end.
//
// Throws Error that names the node where a collective was made for another number of ranks than the mesh has.
Graph distribute(const Graph& graph, const PassContext& context);

// For weights of which each rank has a part alone (ZeRO stage 3, passes/distribution/optimizer_shards.h): nodes that read such a weight
// read an all_gather of the parts instead. Where a cast reads the weight, parts are cast first and then gathered, so that they travel
// in the dtype of the computation; of weights kept in parts the rounded part is that cast. Every weight is gathered once in each dtype;
// place_gathers() decides when.
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
// The nodes that read gathered weights fall into units, in the graph's order: neighbours that read weights of the same layer are one
// unit. The layer is the name up to its first number, `model.layers.3`; weights without a number are of one layer. Each unit gets a
// gather of its own, of all that it reads, which stands before the first node of the unit ahead. It also gets copies of the nodes that
// only reshape, cast or join weights. So nothing of a unit's weights is alive behind the unit.
//
// The pass stands behind every pass that merges equal nodes, since it repeats some. When nodes are ordered later, a gather stays before
// the node that it stands before (passes/memory/node_order.h).
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
// It runs on the graph that partition() has written.
Graph shard_sequence(const Graph& graph, const PassContext& context);

// The part of an optimizer's work that one of the ranks along "data" does.
//
// The norm of averaged gradients: each rank sums the squares of its part of every gradient whose elements the ranks divide,
// and the sums are added up over the ranks. So every run of so many ranks has the same bits, whatever it shards.
//
// Updates of moments that the context's storage keeps as shards: a gradient that only they and norms read travels by
// reduce_scatter instead of all_reduce; the update works on the flat part of parameter, gradient and moments that is this
// rank's; and the new parameters are gathered from all ranks, many at a time. The result is that of whole updates, bit for
// bit, where a reduce_scatter adds the ranks as an all_reduce does. From ZeRO stage 2 on, the gradient of each micro-batch is exchanged as
// soon as it is made, and the ranks' parts are summed over the micro-batches, so that no whole gradient waits for the next one. This
// rounds differently. (ZeRO: Rajbhandari et al. 2020, arXiv:1910.02054.)
Graph shard_optimizer(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
