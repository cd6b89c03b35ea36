// Which values of a state this process keeps, where groups of a StateStorage stand one behind the other: a part may be kept in
// parts itself. So a rank along "tensor" has a slice of a weight, which is a state to all that comes behind; and the slice is kept in
// the parts of a format, or as the flat part that one of the ranks along "data" has of it:
//
//   w f32[8,4]  --tensor-->  w.shard f32[4,4]  --data, two parts-->  w.shard.upper bf16[8], w.shard.lower i16[8]
//
// Members of such a group are parts of one ahead of it. The slice has no memory of its own, and in graphs it is what the weight was.
// Used by the passes that choose storages, by executor/states and where checkpoints are joined.
#pragma once

#include <map>
#include <vector>

#include "schema/graph/state_storage.h"

namespace genesis {

// Whether the group's part is a tensor with the axes of its only member, for which it stands.
inline bool is_slice(const StoredGroup& group) {
  return group.shard && !group.shard->owner && group.shard->shape.rank() > 0;
}

// The same shard counted in blocks of so many values, of which it takes whole ones; flat.
inline Shard in_blocks(const Shard& shard, int64_t values) {
  return {shard.axis, shard.first / values, shard.count / values, shard.runs};
}

// By state of the model that ranks share: its successive cuts, from all values to those that this process keeps; each applies to
// the result of the previous one. Only the first may have several runs. States that the model has encoded are not here: every
// process reads all of them from the file.
inline std::map<int32_t, std::vector<Shard>> cuts_of_states(const Model& model, const StateStorage& storage) {
  std::map<int32_t, std::vector<Shard>> cuts;
  std::map<int32_t, int32_t> wholes;  // by slice: the state
  const auto whole_of = [&](int32_t member) { return wholes.contains(member) ? wholes.at(member) : member; };
  const auto values_of = [&](int32_t member) {
    return wholes.contains(member) ? cuts.at(wholes.at(member)).back().numel()
                                   : model.state(member).type.numel();
  };
  for (const StoredGroup& group : storage.groups) {
    if (!group.shard || model.state(whole_of(group.members[0])).encoded) continue;
    int64_t all = 0;
    for (const int32_t member : group.members) all += values_of(member);
    for (const int32_t member : group.members)
      cuts[whole_of(member)].push_back(group.shard_of(values_of(member), all));
    if (is_slice(group)) wholes[group.parts[0]] = group.members[0];
  }
  return cuts;
}

}  // namespace genesis
