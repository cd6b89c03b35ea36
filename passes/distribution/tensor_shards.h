// Decides which states are sharded over the ranks along the mesh axis "tensor", so that they compute layers together.
#pragma once

#include "passes/core/pass.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// Returns this rank's shard of every weight, with its moments and caches, that can be sharded in all entry points at once.
// These are found by following factors (sharding/factors.h) through all graphs: dimensions that belong together are sharded
// together or not at all. A set of dimensions is sharded if it contains weights, if no node needs one of them whole, if the
// ranks divide all sizes, and if it saves more products than it costs sums over the ranks. For a transformer the result is
// Megatron's (Shoeybi et al. 2019, arXiv:1909.08053): attention by heads, feed-forward layers by their inner dimension, two
// sums per layer. Logs at level debug why other weights stay whole. Empty if the mesh has one rank along "tensor". Throws an
// Error with the reason if nothing can be sharded.
StateStorage find_tensor_shards(const Model& model, const Mesh& mesh, int64_t rank,
                                const Target& target = {});

}  // namespace genesis::passes
