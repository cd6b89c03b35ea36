// Which states of an optimizer the ranks along "data" can keep a part of each, whose updates then work on a part
// (ZeRO: Rajbhandari et al. 2020, arXiv:1910.02054); then which weights.
#pragma once

#include <set>
#include <vector>

#include "passes/core/pass.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// Values that are means of what the ranks along "data" have, or made of one such element by element and with scalars:
// the gradients that a training step clips and updates with. All ranks have the same.
std::set<ValueId> averaged_values(const Graph& graph);
// Whether so many ranks can each have a part, flat and equally large.
bool is_divided(const TensorType& type, int64_t ranks);

// Of this rank, by the stage of ZeRO. From 1 on: a part of each moment that only updates of a single parameter from an
// averaged gradient use, where the ranks divide the number of its elements; the others are named under debug. Weights
// that `stored` has in parts, and whose moments are so shared, stay so: the rounded part whole, of the others a range. With 3:
// a part of every weight that is updated so or not at all, but for vectors (norms' weights, biases), which are small.
// `stored` without ranks along "data". Of states of which `ahead` has slices (tensor_shards.h) what is shared is the slice.
StateStorage find_shards(const Model& model, const Mesh& mesh, int64_t rank, int zero,
                         const StateStorage& stored = {}, const StateStorage& ahead = {});

// Weights that `stored` has, of which slices are kept so instead where `ahead` has some; but for those that cannot be.
StateStorage stored_slices(const Model& model, const StateStorage& stored, const StateStorage& ahead);

// Whether of a weight, the only member of the group, this rank has no more than a part, which is to be gathered for
// who reads it.
bool is_weight_shard(const Model& model, const StoredGroup& group);

}  // namespace genesis::passes
