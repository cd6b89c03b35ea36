// The part of each batch that one rank of a mesh trains on: equal, neighbouring parts along the first dimension, in the
// order of the mesh axis "data". So the order of samples follows from the source alone, whatever the number of ranks, and a
// run that goes on with another number goes on with the next sample.
#pragma once

#include <memory>

#include "executor/training/batch_source.h"
#include "schema/ranks/mesh.h"

namespace genesis {

// Scalars of a batch go to every rank. `source` itself where the mesh has one rank along "data". A batch that the ranks do
// not divide is an Error that says which sizes would do.
std::unique_ptr<BatchSource> share_of(std::unique_ptr<BatchSource> source, const Mesh& mesh, int64_t rank);

}  // namespace genesis
