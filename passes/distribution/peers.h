// Checks that a mesh has the ranks that send and recv name, and that its axes are used.
#pragma once

#include "schema/graph/graph.h"
#include "schema/graph/model.h"
#include "schema/ranks/mesh.h"

namespace genesis::passes {

// Throws an Error that names a node whose peer is this rank itself or not in the mesh, and the valid places.
void check_peers(const Graph& graph, const Mesh& mesh, int64_t rank);

// Throws an Error that names an axis along which all ranks would do the same: no node names it, and no pass splits work along
// it.
void check_axes(const Model& model, const Mesh& mesh);

}  // namespace genesis::passes
