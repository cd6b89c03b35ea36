// The values of a session's states. A state is read from the model's own (mapped, shared) memory while nothing writes it and the
// device reads host memory; otherwise it has memory of its own. A state kept in parts (schema/graph/state_storage.h) has only
// the memory of its parts, and is encoded and decoded on the way in and out. Of a sharded state each rank has its shard: all
// ranks set the whole value, and reading the whole value is a collective exchange. A slice that is itself kept in parts has no
// memory: requests for the whole state go through the slice to the parts.
//
// StateMemory joins three layers, which do not know each other: StateAllocations owns the bytes, encoded_transfers converts
// between values and the parts of a format, and RankShards knows which values a rank holds. StoredPlaces tells where each state
// is.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/runtime/device.h"
#include "executor/runtime/downloads.h"
#include "executor/states/rank_shards.h"
#include "executor/states/state_allocations.h"
#include "executor/states/stored_places.h"

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
  int64_t decoded_bytes = 0;  // bytes of the decoded values of states kept in parts
};

class StateMemory {
 public:
  // `collectives` serves sharded states; null: sharded states can be set but not read as a whole.
  StateMemory(const Model& model, Device& device, std::shared_ptr<Collectives> collectives = {});

  // From now on the members of `storage` are kept in their parts, which are states of `tables`, a model that begins with the
  // states of the current one. Every address changes. The old memory goes to `outlived`, if something still reads it, or is
  // freed.
  void keep_as(const Model& tables, const StateStorage& storage, std::vector<DeviceMemory>* outlived);
  // Gives caches memory of the caller (StateAllocations::place).
  void place(int32_t state, DeviceMemory memory) { bytes_.place(state, std::move(memory)); }
  // Gives caches another size (StateAllocations::resize).
  void resize(const Model& tables);

  std::byte* data(int32_t state);     // readable by the device; allocated on first use
  bool make_writable(int32_t state);  // returns true if the address changed
  // Does the same for many states, which share one allocation; returns how many addresses changed.
  int64_t make_writable(const std::vector<int32_t>& states);
  void set(int32_t state, const Tensor& value);
  void reset(int32_t state);         // back to its initial value
  Tensor copy(int32_t state) const;  // a collective call if the state is sharded
  bool is_shared(int32_t state) const { return places_.is_shared(state); }
  bool shares() const { return storage().has_shards(); }
  const StateStorage& storage() const { return places_.storage(); }
  // Returns this rank's local value of a state: the whole tensor, or its shard as a flat tensor if the state is sharded.
  // kept_type() is its type.
  Tensor kept(int32_t state) const;
  TensorType kept_type(int32_t state) const { return places_.kept_type(state); }
  // Returns why the ranks can no longer exchange data; empty: they can. Any thread may call it.
  std::string failure_of_ranks() const { return ranks_.failure(); }
  // These read and set the states that the model has encoded, in encoded form; set_encoded() returns how many addresses changed.
  // States of which ranks have slices are passed as a whole.
  std::map<int32_t, EncodedValues> encoded() const;
  int64_t set_encoded(const std::map<int32_t, EncodedValues>& values);
  const EncodedValues& encoded_values(int32_t state) const;
  // Returns the memory ranges to copy for the states with `is_wanted`, except caches.
  StateCopies copies(const std::function<bool(int32_t)>& is_wanted) const;
  int64_t owned_bytes(std::optional<StateRole> role = {}) const { return bytes_.owned_bytes(role); }
  int64_t mapped_bytes() const;

  // Returns the state that owns this state's memory: itself, or its first part.
  int32_t home(int32_t state) const { return places_.home(state); }
  // Returns the bytes that data() or make_writable() would still have to allocate.
  int64_t missing_bytes(int32_t state) const { return bytes_.missing_bytes(state); }

 private:
  // Returns the addresses of the parts of a member; null for a part without memory.
  StateFormat::Parts parts(int32_t member) const;
  StateFormat::Parts kept_parts(int32_t member) const;  // only the values of this rank
  bool owns_all(const StoredGroup& group) const;
  bool has_own_values(int32_t state) const;  // else it has never been written

  // These return initial values; empty: zeros.
  Tensor initial(int32_t state) const;
  Tensor encoded_part(int32_t slice, int32_t part) const;
  void begin_again(int32_t state);  // resets to the initial value, or to that in given_
  void encode_initial(int32_t member, const std::vector<int32_t>& fresh);

  // These write values of a state that is kept in parts; empty: zeros.
  void put(int32_t state, const Tensor& values);
  void upload(int32_t state, const StateFormat::Parts& to, const Tensor& values);

  // These read whole values that ranks share.
  Tensor gathered(int32_t state) const;
  Tensor from_owner(int32_t state) const;

  void add_copy(int32_t state, StateCopies& copies) const;

  const Model* model_;
  Device& device_;
  StoredPlaces places_;
  StateAllocations bytes_;
  const RankShards ranks_;
  // The whole values that encoded states with slices on this rank were set to. No run writes such states.
  std::map<int32_t, EncodedValues> given_;
};

}  // namespace genesis
