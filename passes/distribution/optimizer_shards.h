// Which states of an optimizer the ranks along "data" can keep a part of each, and the updates that then work on a part
// (ZeRO stage 1: Rajbhandari et al. 2020, arXiv:1910.02054).
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

// Of this rank: a part of each moment that only updates of a single parameter from an averaged gradient use, where the
// ranks divide the number of its elements. The others are named under debug. Empty where the mesh has one rank along "data".
StateStorage find_shards(const Model& model, const Mesh& mesh, int64_t rank);

}  // namespace genesis::passes
