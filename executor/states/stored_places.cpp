#include "executor/states/stored_places.h"

#include <utility>

#include "schema/graph/state_cuts.h"

namespace genesis {

StoredPlaces::StoredPlaces(const Model& tables, StateStorage storage)
    : tables_(&tables),
      storage_(std::move(storage)),
      places_(tables.states().size()),
      members_(tables.states().size()) {
  for (const StoredGroup& group : storage_.groups) add_members(group);
}

void StoredPlaces::add_members(const StoredGroup& group) {
  int64_t all = 0;
  for (int32_t member : group.members) all += tables_->state(member).type.numel();
  StoredPlace next{.group = &group};
  for (int32_t member : group.members) {
    const int64_t values = tables_->state(member).type.numel();
    if (group.shard) next.shard = group.shard_of(values, all);
    places_[static_cast<size_t>(member)] = next;
    next.first += values;
    next.first_of_shard += next.shard.numel();
  }
  for (int32_t part : group.parts) members_[static_cast<size_t>(part)] = group.members;
}

int32_t StoredPlaces::home(int32_t state) const {
  return is_in_parts(state) ? home(of(state).group->parts[0]) : state;
}

std::vector<int32_t> StoredPlaces::homes(const std::vector<int32_t>& states) const {
  std::vector<int32_t> all;
  for (const int32_t state : states) {
    if (!is_in_parts(state)) {
      all.push_back(state);
      continue;
    }
    const std::vector<int32_t> of_parts = homes(of(state).group->parts);
    all.insert(all.end(), of_parts.begin(), of_parts.end());
  }
  return all;
}

int32_t StoredPlaces::stored_slice(int32_t state) const {
  if (!is_in_parts(state) || !is_slice(*of(state).group)) return -1;
  const int32_t slice = of(state).group->parts[0];
  return is_in_parts(slice) ? slice : -1;
}

int32_t StoredPlaces::whole_of(int32_t state) const {
  const std::vector<int32_t>& members = members_of(state);
  return members.size() == 1 && is_slice(*of(members[0]).group) ? members[0] : -1;
}

bool StoredPlaces::is_encoded_in_model(int32_t state) const {
  const int32_t whole = whole_of(state);
  return bool(tables_->state(whole >= 0 ? whole : state).encoded);
}

bool StoredPlaces::is_shared(int32_t state) const {
  return is_in_parts(state) && of(state).group->shard && !tables_->state(state).encoded;
}

TensorType StoredPlaces::kept_type(int32_t state) const {
  const TensorType& type = tables_->state(state).type;
  if (tables_->state(state).encoded) return type;  // whole, since every rank has the file
  if (const int32_t slice = stored_slice(state); slice >= 0) return {type.dtype, {kept_type(slice).numel()}};
  const int64_t kept = of(state).shard.numel();
  return is_shared(state) && kept != type.numel() ? TensorType{type.dtype, {kept}} : type;
}

}  // namespace genesis
