// Computes the sizes that an entry point has on one rank of a mesh.
#pragma once

#include <string>

#include "schema/graph/graph.h"
#include "schema/ranks/mesh.h"

namespace genesis::passes {

// Returns the number of ranks that share the batch of an entry point, because it exchanges data along the mesh axis "data"; 1:
// each rank has the whole batch.
int64_t batch_parts(const Graph& entry, const Mesh& mesh);

// Returns the sizes on one rank; `sizes` are those of the whole run. If ranks share the batch, the symbol in the first
// dimension of the first input is divided by their number. Throws an Error if the ranks do not divide it, naming sizes that
// they do divide, or if the file has a fixed number there.
Bindings sizes_of_rank(const Graph& entry, Bindings sizes, const Mesh& mesh);

// Returns advice for messages on a size that the ranks do not divide: "4 or 6", "2".
std::string sizes_near(int64_t size, int64_t ranks);

}  // namespace genesis::passes
