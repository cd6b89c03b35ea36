// Gives each rank of a mesh its shard of every batch: equal, contiguous shards of the first dimension, in the order of the mesh
// axis "data". So the order of samples does not depend on the number of ranks, and a run resumed with another number of ranks
// continues with the next sample.
#pragma once

#include <memory>

#include "executor/training/batch_source.h"
#include "schema/ranks/mesh.h"

namespace genesis {

// Returns a source of this rank's shards, or `source` itself if the mesh has one rank along "data". Every rank gets the scalars
// of a batch. A batch that cannot be divided evenly is an Error that suggests sizes.
std::unique_ptr<BatchSource> share_of(std::unique_ptr<BatchSource> source, const Mesh& mesh, int64_t rank);

}  // namespace genesis
