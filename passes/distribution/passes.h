// The passes of this folder split the work and the states of an entry point over ranks.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Turns a graph that names mesh axes into the graph of one rank. Removes collectives along axes with a single rank. With
// several ranks, an all_reduce or reduce_scatter of many tensors (the gradients of a training step) is split into buckets
// (Target::bucket_bytes). A bucket is placed where its last tensor is computed, so that it is exchanged while the backward pass
// continues. (DistributedDataParallel does this too, Li et al. 2020; here the tensors of a bucket are exchanged in place,
// without copies.)
//
// For an embedding's gradient the ranks exchange the rows with their indices, if these are fewer bytes than the table that they
// are summed into. A table that is also the head's weight can then be exchanged with the head's gradient, when the backward
// pass begins instead of at its end.
//
// Throws an Error that names a collective made for another number of ranks than the mesh has.
Graph distribute(const Graph& graph, const PassContext& context);

// Gathers weights of which each rank stores only a shard (ZeRO stage 3, passes/distribution/optimizer_shards.h): nodes that
// read such a weight read an all_gather of the shards instead. If a cast reads the weight, the shards are cast first and then
// gathered, so that they are exchanged in the dtype of the computation; for weights stored in parts, the rounded part is the
// result of this cast. Every weight is gathered once in each dtype; place_gathers() decides when.
Graph gather_weights(const Graph& graph, const PassContext& context);

// Makes the graph that one of the ranks along "tensor" computes.
//
// States that the context's storage keeps as shards along that axis are read and written as this rank's shard. A node with
// sharded operands computes a shard, as its factors say (sharding/factors.h); results that are sums over the sharded dimension
// are summed over the ranks by an all_reduce. Values that a node or an output needs whole are gathered from all ranks.
Graph partition(const Graph& graph, const PassContext& context);

// Makes the graph that one of the ranks along "expert" computes: it has the experts that the context's storage keeps as its shard
// (passes/distribution/expert_shards.h), for the tokens of all these ranks.
//
// If the entry point shares a batch, each rank routes its own tokens. The ranks gather the choices and the tokens (all_gather), sort
// all pairs of a token and an expert alike, and each multiplies the rows of its own experts; grouped_matmul gives zeros in the
// others. What the experts computed of each token is summed over the ranks by a reduce_scatter, after the sum over the experts of
// the token: with k experts per token, this exchanges a k-th of an exchange of pairs. The backward pass does the same with gradients. In
// other entry points all ranks have the same tokens, and an all_reduce sums the results. There, ranks also compute a part each of a
// layer whose weight takes longer to read than its results to exchange, such as the logits of a decoding step.
//
// Throws an Error that names a node that cannot be computed for some experts only.
Graph partition_experts(const Graph& graph, const PassContext& context);

// Decides when sharded weights are gathered: those of a layer together, while the previous layer computes, and again for the
// backward pass instead of keeping them (ZeRO stage 3; like FSDP, Zhao et al. 2023, arXiv:2304.11277, but as nodes of the
// graph, whose memory and streams are planned like those of others).
//
// The nodes that read gathered weights form units, in the graph's order: consecutive nodes that read weights of the same layer
// are one unit. The layer is the name up to its first number, `model.layers.3`; all weights without a number form one layer.
// Each unit gets its own gather of all weights that it reads, placed before the first node of the previous unit, and its own
// copies of the nodes that only reshape, cast or join weights. So no weight of a unit stays alive after it.
//
// The pass runs after every pass that merges equal nodes, because it repeats some. When nodes are ordered later, a gather stays
// before the node that follows it here (passes/memory/node_order.h).
Graph place_gathers(const Graph& graph, const PassContext& context);

// Sequence parallelism (Korthikanti et al. 2022, arXiv:2205.05198): between two sharded layers, the ranks along "tensor" would
// all compute the same; instead, each computes a shard of the tokens. The all_reduce after a layer becomes a reduce_scatter;
// norms, residual sums and dropout work on one Nth of the rows; and an all_gather precedes nodes that need all rows, such as
// sharded layers. Both together exchange as much as the all_reduce did, and the backward pass keeps one Nth of the rows.
//
// Tokens are the rows of the reduced tensor: all its dimensions but the last. A rank's shard is a range of them, regardless of
// sequences (sharding/row_rules.h). Gradients of norms' weights are sums over the rows; all of them are summed over the ranks
// in one exchange. The all_reduce stays, with a log message at level debug, if the ranks do not divide the tokens, or if an
// estimate says that the step would become slower (with a memory budget: by more than a tenth). passes/memory/recompute_outputs
// gathers again for the backward pass instead of keeping gathered values.
//
// It runs on the graph that partition() has written.
Graph shard_sequence(const Graph& graph, const PassContext& context);

// Shards the work of the optimizer over the ranks along "data".
//
// The norm of averaged gradients: if the ranks divide the elements of a gradient, each rank sums the squares of its shard, and
// an all_reduce adds the results. So every run with this number of ranks has the same bits, whatever it shards.
//
// Updates of moments that the context's storage keeps as shards: a gradient that only these updates and norms read is exchanged
// by reduce_scatter instead of all_reduce; the update works on this rank's flat shard of parameter, gradient and moments; and
// the new parameters are gathered from all ranks, many by one exchange. The result equals that of whole updates bit for bit, if
// a reduce_scatter adds the ranks in the same order as an all_reduce. From ZeRO stage 2 on, the gradient of each micro-batch is
// exchanged as soon as it is computed and the shards are summed over the micro-batches, so that no whole gradient waits for the
// next one; this rounds differently. (ZeRO: Rajbhandari et al. 2020, arXiv:1910.02054.)
Graph shard_optimizer(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
