// The groups of ranks that a mesh with the axis "expert" has beside its axes. Ranks along "expert" have experts of their own, and
// otherwise share the batch as ranks along "data" do. So the ranks of one batch are those along both axes, and "data" names them
// all: Mesh::size(), place() and group() count them together. Two more names say what is left:
//
//   data=2,expert=4,tensor=2   "data": 8 ranks share the batch;  "expert": 4 ranks exchange tokens
//                              "replica": 2 ranks have the same experts;  "expert_shard": 8 ranks have all experts together
#pragma once

#include <string>
#include <vector>

namespace genesis {

class Mesh;

inline constexpr char kExpertAxis[] = "expert";    // each rank has some experts and a shard of the batch
inline constexpr char kReplicaAxis[] = "replica";  // the ranks along the axis "data" alone
inline constexpr char kExpertShardAxis[] =
    "expert_shard";  // the ranks along "expert" and "tensor": each has other experts

// Returns the names by which the ranks of the mesh may exchange data: its axes, and those above where it has "expert".
std::vector<std::string> group_names(const Mesh& mesh);

}  // namespace genesis
