// The sizes that an entry point has on one rank of a mesh.
#pragma once

#include "schema/ranks/mesh.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

// `sizes` are those of the whole run. Where the entry point exchanges data along the axis "data", its ranks share the batch:
// the symbol that the first dimension of the first input is a multiple of becomes so many times smaller. Throws Error
// where the ranks do not divide it, naming sizes that they do, or where the file has it as a number.
Bindings sizes_of_rank(const Graph& entry, Bindings sizes, const Mesh& mesh);

}  // namespace genesis::passes
