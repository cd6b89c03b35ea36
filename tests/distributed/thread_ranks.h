// Ranks that are threads of this process, for tests of what passes and sessions do with a mesh: no launcher, no network.
// Sums add the ranks in their order, as every RankGroup does.
#pragma once

#include <functional>
#include <memory>

#include "backends/collectives.h"
#include "schema/ranks/mesh.h"

namespace genesis::testing {

// Runs `body` once for each rank of the mesh, all at the same time. An exception of one rank makes the others fail, and
// is thrown again here (the first that came).
void run_ranks(const Mesh& mesh, const std::function<void(int64_t rank, std::shared_ptr<Collectives>)>& body);

}  // namespace genesis::testing
