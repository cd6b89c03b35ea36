// Whether a mesh has the ranks that send and recv name, and whether anything uses its axes.
#pragma once

#include "schema/graph/graph.h"
#include "schema/graph/model.h"
#include "schema/ranks/mesh.h"

namespace genesis::passes {

// Throws Error that names the node whose peer the mesh does not have, or is this rank itself, and the places there are.
void check_peers(const Graph& graph, const Mesh& mesh, int64_t rank);

// Throws Error that names an axis along which ranks would all do the same: no node names it, and no pass shares work along it.
void check_axes(const Model& model, const Mesh& mesh);

}  // namespace genesis::passes
