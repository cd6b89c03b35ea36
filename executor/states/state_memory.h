// The memory of a session's states. A state is read from the model's own (mapped, shared) memory while nothing writes it and the
// device reads host memory; otherwise it has memory of its own. A state stored in parts (schema/graph/state_storage.h) has only
// the memory of its parts, and is encoded and decoded on the way in and out. Of a sharded state each rank has its shard: all
// ranks set the whole value, and reading the whole value is a collective exchange. A slice that is itself stored in parts has no
// memory: requests for the whole state go through the slice to the parts.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/collectives.h"
#include "executor/runtime/device.h"
#include "executor/runtime/downloads.h"
#include "schema/graph/state_storage.h"

namespace genesis {

// Copies of the memory of states, one after the other, and which values they hold: of a sharded state the shard of this rank.
struct StateCopies {
  struct Value {
    int32_t state = -1;
    const StateFormat* format = nullptr;  // null: the copy is the value
    // The offsets of the copies of its parts; without a format, [0] is the offset of the value.
    std::array<int64_t, StateFormat::kMaxParts> at{};
    TensorType type = {};
  };
  std::vector<MemoryPart> parts;
  std::vector<Value> values;  // states that are not listed have never been written
  int64_t bytes = 0;
  int64_t decoded_bytes = 0;  // bytes of the decoded values of states stored in parts
};

class StateMemory {
 public:
  // `collectives` serves sharded states; null: sharded states can be set but not read as a whole.
  StateMemory(const Model& model, Device& device, std::shared_ptr<Collectives> collectives = {});

  // From now on the members of `storage` are stored in their parts, which are states of `tables`, a model that begins with the
  // states of the current one. Every address changes. The old memory goes to `outlived`, if something still reads it, or is
  // freed.
  void keep_as(const Model& tables, const StateStorage& storage, std::vector<DeviceMemory>* outlived);

  // Gives caches the sizes that they have in `tables`, whose states differ from the current ones in one axis of caches only. Values
  // keep their places, and new places are zeros. Every address of these states changes. Throws Error if there is not enough memory;
  // then nothing has changed but addresses.
  void resize(const Model& tables);

  std::byte* data(int32_t state);     // readable by the device; allocated on first use
  bool make_writable(int32_t state);  // returns true if the address changed
  // Does the same for many states, which share one allocation; returns how many addresses changed.
  int64_t make_writable(const std::vector<int32_t>& states);
  void set(int32_t state, const Tensor& value);
  void reset(int32_t state);         // back to its initial value
  Tensor copy(int32_t state) const;  // a collective call if the state is sharded
  bool is_shared(int32_t state) const {
    return is_encoded(state) && membership(state).group->shard && !model_->state(state).encoded;
  }
  bool shares() const { return storage_.has_shards(); }
  const StateStorage& storage() const { return storage_; }
  // Returns this rank's local value of a state: the whole tensor, or its shard as a flat tensor if the state is sharded.
  // kept_type() is its type.
  Tensor kept(int32_t state) const;
  TensorType kept_type(int32_t state) const;
  // Returns why the ranks can no longer exchange data; empty: they can. Any thread may call it.
  std::string failure_of_ranks() const { return collectives_ ? collectives_->failure() : ""; }
  // These read and set the states that the model has encoded, in encoded form; set_encoded() returns how many addresses changed.
  // States of which ranks have slices are passed as a whole.
  std::map<int32_t, EncodedValues> encoded() const;
  int64_t set_encoded(const std::map<int32_t, EncodedValues>& values);
  const EncodedValues& encoded_values(int32_t state) const;
  // Returns the memory ranges to copy for the states with `is_wanted`, except caches.
  StateCopies copies(const std::function<bool(int32_t)>& is_wanted) const;
  int64_t owned_bytes(std::optional<StateRole> role = {}) const;  // empty: of all roles
  int64_t mapped_bytes() const;

  // Returns the state that owns this state's memory: itself, or its first part.
  int32_t home(int32_t state) const;

  // Returns the bytes that data() or make_writable() would still have to allocate.
  int64_t missing_bytes(int32_t state) const;

 private:
  // The place of a state in its stored group: how many values of other members precede its own, in parts that hold all values and
  // in shards.
  struct Membership {
    const StoredGroup* group = nullptr;  // null: the state is stored as it is
    int64_t first = 0, first_of_shard = 0;
    Shard shard = {};  // the shard of its values, if the group has shards

    int64_t first_in(size_t part) const { return group->is_shard(part) ? first_of_shard : first; }
  };

  const Membership& membership(int32_t state) const { return memberships_[static_cast<size_t>(state)]; }
  bool is_encoded(int32_t state) const { return membership(state).group != nullptr; }
  // Returns this rank's slice of the state, if the slice is itself stored in parts; else -1.
  int32_t stored_slice(int32_t state) const;
  // Returns the state that a slice is cut from; else -1.
  int32_t whole_of(int32_t state) const;
  bool is_encoded_in_model(int32_t state) const;  // or the state that it is a slice of is
  Tensor encoded_part(int32_t slice, int32_t part) const;
  DeviceMemory& owned(int32_t state) { return owned_[static_cast<size_t>(state)]; }
  const DeviceMemory& owned(int32_t state) const { return owned_[static_cast<size_t>(state)]; }
  bool owns_all(const StoredGroup& group) const;
  void add_members(const StoredGroup& group);
  void add_homes(int32_t state, std::vector<int32_t>& homes) const;  // appends the states that own its memory
  void begin_again(int32_t state);  // resets to the initial value, or to that in given_
  void fill_initial(int32_t state, const Tensor& start);
  std::map<int32_t, DeviceMemory> allocate(const std::vector<int32_t>& homes) const;
  void put_resized(const std::map<int32_t, Tensor>& values);
  void encode_initial(int32_t member, const std::map<int32_t, DeviceMemory>& fresh);
  StateFormat::Parts parts(int32_t member) const;       // some may be null
  StateFormat::Parts kept_parts(int32_t member) const;  // only the values of this rank
  bool has_own_values(int32_t state) const;             // else it has never been written
  void add_copy(int32_t state, StateCopies& copies) const;
  Tensor initial(int32_t state) const;            // empty: zeros
  void put(int32_t state, const Tensor& values);  // empty: zeros
  // Encodes the values (empty: zeros) of a state stored in parts and uploads them to `to`; parts that are shards get only this
  // rank's values.
  void upload(int32_t state, const StateFormat::Parts& to, const Tensor& values);
  Tensor gathered(int32_t state) const;
  Tensor from_owner(int32_t state) const;
  RankGroup& ranks_with(int32_t state) const;
  DeviceMemory gathered_part(int32_t state, size_t part, std::byte* own) const;

  const Model* model_;
  Device& device_;
  const std::shared_ptr<Collectives> collectives_;
  std::vector<DeviceMemory> owned_;  // by state; null: read from the model
  // The whole values that encoded states with slices on this rank were set to. No run writes such states.
  std::map<int32_t, EncodedValues> given_;
  StateStorage storage_;
  std::vector<Membership> memberships_;        // by state
  std::vector<std::vector<int32_t>> members_;  // by part: the states stored in it
};

}  // namespace genesis
