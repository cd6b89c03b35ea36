// Runs ranks as threads of this process, for tests of passes and sessions on a mesh without a launcher or a network.
// Sums add the ranks in their order, as every RankGroup does.
#pragma once

#include <functional>
#include <memory>

#include "backends/collectives.h"
#include "schema/ranks/mesh.h"

namespace genesis::testing {

// Runs `body` concurrently for each rank of the mesh. An exception of one rank makes the others fail, and the first
// exception is thrown again here.
void run_ranks(const Mesh& mesh, const std::function<void(int64_t rank, std::shared_ptr<Collectives>)>& body);

}  // namespace genesis::testing
