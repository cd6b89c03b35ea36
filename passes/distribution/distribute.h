// From a graph that names axes of a mesh to the graph of one rank. Without ranks along an axis its collectives go; with
// some, an all_reduce or reduce_scatter of many tensors (the gradients of a training step) is cut into buckets, each placed where its last
// tensor is made, so that it travels while the backward pass goes on. (As DistributedDataParallel does, Li et al. 2020,
// but without copies: the tensors of a bucket travel together from where they are.)
//
// Of an embedding's gradient the rows travel, with their indices, and not the table they are summed into, where that is less:
// a table that is also the head's weight is exchanged when the backward pass begins, with the head's gradient, and not after it.
//
// Throws Error that names the node where a collective was made for another number of ranks than the mesh has.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Bytes after which a bucket is full: large enough that starting it costs little, small enough that the last one, which
// nothing hides, is over soon.
inline constexpr int64_t kBucketBytes = int64_t{32} << 20;

Graph distribute(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
