// Which rank of a run keeps which states in a checkpoint: of a state that ranks share each its part, and of the others,
// which all have, every rank about as many bytes; what one stage of a pipeline keeps, a rank of that stage. All ranks come to the same.
#pragma once

#include <cstdint>
#include <vector>

#include "schema/graph/state_storage.h"
#include "schema/ranks/mesh.h"

namespace genesis {

struct StateOwners {
  // One, who keeps the whole state; or of a state that is shared as many as there are parts, in their order. None: no file
  // has the state.
  std::vector<int64_t> ranks;
  int64_t runs = 1;         // as in Shard
  int64_t pieces_each = 1;  // as in JoinedValues

  bool is_joined() const { return ranks.size() > 1; }
};

struct StateParts {
  int64_t rank = 0, ranks = 1;      // this one, of so many
  std::vector<StateOwners> owners;  // by state of the model; empty: this rank keeps all

  bool is_mine(int32_t state) const;
};

StateParts divide_states(const Model& model, const StateStorage& storage, const Mesh& mesh, int64_t rank);

}  // namespace genesis
