// Says where the values of each state of a session are: in the state's own memory, or in the parts of a group, from which place
// on, and which shard of them this rank keeps. It holds indices and counts only: it knows no addresses, no device and no other
// rank, so it can be tested without them. StateMemory looks up every state here.
#pragma once

#include <cstdint>
#include <vector>

#include "schema/graph/state_storage.h"

namespace genesis {

// The place of a state in its group: how many values of other members precede its own, in parts that hold all values and in
// shards.
struct StoredPlace {
  const StoredGroup* group = nullptr;  // null: the state is kept as the tensor that it means
  int64_t first = 0, first_of_shard = 0;
  Shard shard = {};  // the shard of its values, if the group has shards

  int64_t first_in(size_t part) const { return group->is_shard(part) ? first_of_shard : first; }
};

class StoredPlaces {
 public:
  // `tables` has the states of a model followed by the parts of `storage`. It must outlive this object.
  explicit StoredPlaces(const Model& tables, StateStorage storage = {});
  StoredPlaces(StoredPlaces&&) = default;  // a copy would point at the groups of the original
  StoredPlaces& operator=(StoredPlaces&&) = default;

  const StateStorage& storage() const { return storage_; }
  // Takes tables that differ from the current ones in sizes of caches only.
  void set_tables(const Model& tables) { tables_ = &tables; }

  const StoredPlace& of(int32_t state) const { return places_[static_cast<size_t>(state)]; }
  bool is_in_parts(int32_t state) const { return of(state).group != nullptr; }
  // Returns the states whose values are in a part; empty for a state that is no part.
  const std::vector<int32_t>& members_of(int32_t part) const { return members_[static_cast<size_t>(part)]; }

  // Returns the state that owns this state's memory: itself, or its first part.
  int32_t home(int32_t state) const;
  // Returns the states that own memory for any of these.
  std::vector<int32_t> homes(const std::vector<int32_t>& states) const;

  // Returns this rank's slice of the state, if the slice is itself kept in parts; else -1. Such a slice has no memory.
  int32_t stored_slice(int32_t state) const;
  // Returns the state that a slice is cut from; else -1.
  int32_t whole_of(int32_t state) const;
  // Returns true if the model has the state, or the state that it is a slice of, encoded.
  bool is_encoded_in_model(int32_t state) const;

  // Returns true if the ranks share the state, so that reading it is a collective call.
  bool is_shared(int32_t state) const;
  // Returns the type of this rank's local value: of the whole state, or of its shard as a flat tensor.
  TensorType kept_type(int32_t state) const;

 private:
  void add_members(const StoredGroup& group);

  const Model* tables_;
  StateStorage storage_;
  std::vector<StoredPlace> places_;            // by state
  std::vector<std::vector<int32_t>> members_;  // by part
};

}  // namespace genesis
