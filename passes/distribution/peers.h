// Whether the ranks that send and recv name are there.
#pragma once

#include "schema/graph/graph.h"
#include "schema/ranks/mesh.h"

namespace genesis::passes {

// Throws Error that names the node whose peer the mesh does not have, or is this rank itself, and the places there are.
void check_peers(const Graph& graph, const Mesh& mesh, int64_t rank);

}  // namespace genesis::passes
