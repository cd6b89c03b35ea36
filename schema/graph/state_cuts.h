// Computes which values of a state this process keeps if several groups of a StateStorage apply one after the other: a part of
// one group may be a member of the next. For example, a rank along "tensor" has a slice of a weight. Later passes treat the slice
// as a state of its own, which is kept in the parts of a format, or as the flat shard of a rank along "data":
//
//   w f32[8,4]  --tensor-->  w.shard f32[4,4]  --data, two parts-->  w.shard.upper bf16[8], w.shard.lower i16[8]
//
// The slice has no memory of its own; in graphs it takes the place of the weight.
#pragma once

#include <map>
#include <vector>

#include "schema/graph/state_storage.h"

namespace genesis {

// Returns true if the group's part is a slice with the axes of its only member, which it replaces.
inline bool is_slice(const StoredGroup& group) {
  return group.shard && !group.shard->owner && group.shard->shape.rank() > 0;
}

// Returns the same shard counted in blocks of `values` values, as a flat shard. The shard must consist of whole blocks.
inline Shard in_blocks(const Shard& shard, int64_t values) {
  return {shard.axis, shard.first / values, shard.count / values, shard.runs};
}

// Returns, for each sharded state of the model, its successive cuts, from all values to those that this process keeps; each cut
// applies to the result of the one before it. Only the first may have several runs. States that the model has encoded are left
// out: every process reads all of them from the file.
inline std::map<int32_t, std::vector<Shard>> cuts_of_states(const Model& model, const StateStorage& storage) {
  std::map<int32_t, std::vector<Shard>> cuts;
  std::map<int32_t, int32_t> wholes;  // slice -> the state it is a slice of
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
