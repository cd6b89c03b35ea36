// Decides which weights are sharded over the ranks along the mesh axis "expert", so that each rank has some experts of every layer.
#pragma once

#include <set>

#include "passes/core/pass.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// Returns the states with the weights of experts, the operands of grouped_matmul, and the moments that updates keep of them.
std::set<int32_t> states_of_experts(const Model& model);

// Returns this rank's shard of these states: experts of neighboring numbers. Ranks along "tensor" have other experts, too, so that
// all ranks of the group "expert_shard" (schema/ranks/mesh_groups.h) together have each expert once. Empty if the mesh has one rank
// along "expert". Throws an Error if the model has no experts, if the ranks do not divide their number, or if the mesh has
// "pipeline", too.
StateStorage find_expert_shards(const Model& model, const Mesh& mesh, int64_t rank);

}  // namespace genesis::passes
