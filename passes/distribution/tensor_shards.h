// Which states the ranks along the mesh axis "tensor" each keep a part of, so that layers are computed by all of them together.
#pragma once

#include "passes/core/pass.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// Of this rank: its part of every weight, with its moments and caches, that can be cut in all entry points at once. What can
// be cut is found by following factors (sharding/factors.h) through all graphs: dimensions that go together are cut
// together or not at all. A set of them is cut where it holds weights, where no node needs one of its dimensions whole,
// where the ranks divide all of its sizes, and where it saves more products than it costs sums over the ranks. For a
// transformer that gives what Megatron does (Shoeybi et al. 2019, arXiv:1909.08053): attention by heads, feed-forward layers by
// their inner dimension, two sums a layer. Why other weights stay whole is told under debug. Empty where the mesh has one rank
// along "tensor". Throws Error where nothing can be cut, with the reason.
StateStorage find_tensor_shards(const Model& model, const Mesh& mesh, int64_t rank,
                                const Target& target = {});

}  // namespace genesis::passes
