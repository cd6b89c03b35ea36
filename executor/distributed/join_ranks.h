// Joins the ranks of a program that several ranks run together, or starts them.
#pragma once

#include <memory>
#include <string>

#include "executor/distributed/world.h"

namespace genesis {

// The mesh axis along which ranks share the work: "data", or "tensor" if there is no batch to share.
enum class SharedWork { kBatches, kLayers };

// Joins the ranks of a mesh such as "data=2"; an empty mesh is a single rank. `device`: "cpu", "cuda" or "auto". If no launcher
// has started ranks, this process starts them as copies of itself, waits for them and exits as they do. Throws Error for ranks
// along "data" or "pipeline" that would share no work, and for a device with a number, since every rank takes its own. Warns if
// a launcher has started several ranks and the mesh is empty.
std::shared_ptr<World> join_ranks(const std::string& mesh, const std::string& device,
                                  SharedWork work = SharedWork::kBatches);

}  // namespace genesis
