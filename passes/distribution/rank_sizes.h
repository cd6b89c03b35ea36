// The sizes that an entry point has on one rank of a mesh.
#pragma once

#include <string>

#include "schema/graph/graph.h"
#include "schema/ranks/mesh.h"

namespace genesis::passes {

// How many ranks share the batch of an entry point, because it exchanges data along the mesh axis "data"; 1: each has all of it.
int64_t batch_parts(const Graph& entry, const Mesh& mesh);

// `sizes` are those of the whole run. Where ranks share the batch,
// the symbol that the first dimension of the first input is a multiple of becomes so many times smaller. Throws Error
// where the ranks do not divide it, naming sizes that they do, or where the file has it as a number.
Bindings sizes_of_rank(const Graph& entry, Bindings sizes, const Mesh& mesh);

// What to take instead of a size that so many ranks do not divide, for messages: "4 or 6", "2".
std::string sizes_near(int64_t size, int64_t ranks);

}  // namespace genesis::passes
