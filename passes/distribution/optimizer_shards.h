// Decides which states of an optimizer are sharded over the ranks along "data", so that updates work on shards (ZeRO:
// Rajbhandari et al. 2020, arXiv:1910.02054), and which weights.
#pragma once

#include <set>
#include <vector>

#include "passes/core/pass.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// Returns the values that are means over the ranks along "data", or computed from one such value elementwise and with scalars:
// the gradients that a training step clips and updates with. They are the same on all ranks.
std::set<ValueId> averaged_values(const Graph& graph);
// Returns whether the values can be divided evenly into flat shards, one for each rank.
bool is_divided(const TensorType& type, int64_t ranks);

// Returns what this rank stores, by ZeRO stage. From stage 1 on: a shard of each moment that is only used by updates of a
// single parameter from an averaged gradient, if the ranks divide the number of its elements; other moments are logged at level
// debug. Weights that `stored` has in parts and whose moments are sharded stay in parts: the rounded part whole, a range of the
// others. In stage 3: a shard of every weight that is updated so or not at all, except vectors (weights of norms, biases),
// which are small. Without ranks along "data" returns `stored`. For states of which `ahead` has slices (tensor_shards.h), the
// slice is sharded.
StateStorage find_shards(const Model& model, const Mesh& mesh, int64_t rank, int zero,
                         const StateStorage& stored = {}, const StateStorage& ahead = {});

// Returns the weights of `stored`; if `ahead` has slices of them, the slices are stored in parts instead. Leaves out weights
// for which this is impossible.
StateStorage stored_slices(const Model& model, const StateStorage& stored, const StateStorage& ahead);

// Returns whether this rank has only a shard of a weight, the only member of the group, which must be gathered for its readers.
bool is_weight_shard(const Model& model, const StoredGroup& group);

}  // namespace genesis::passes
