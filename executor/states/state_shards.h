// Decides which rank writes which states to a checkpoint. Each rank writes its shard of a sharded state. The other states, which
// all ranks have, are distributed so that every rank writes about as many bytes. States of one pipeline stage are written by a
// rank of that stage. All ranks compute the same result.
#pragma once

#include <cstdint>
#include <vector>

#include "schema/graph/state_storage.h"
#include "schema/ranks/mesh.h"

namespace genesis {

struct StateOwners {
  // One rank, which writes the whole state; or, for a sharded state, one rank per shard, in order. Empty: no file has the state.
  std::vector<int64_t> ranks;
  int64_t runs = 1;         // same as Shard::runs
  int64_t shards_each = 1;  // same as JoinedValues::pieces_each

  bool is_joined() const { return ranks.size() > 1; }
};

struct StateShards {
  int64_t rank = 0, ranks = 1;      // this rank, and the number of ranks
  std::vector<StateOwners> owners;  // by state of the model; empty: this rank keeps all

  bool is_mine(int32_t state) const;
};

StateShards divide_states(const Model& model, const StateStorage& storage, const Mesh& mesh, int64_t rank);

}  // namespace genesis
