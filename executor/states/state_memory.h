// Where the states of a Session live: in the model's own (mapped, shared) bytes as long as nobody writes them
// and the device reads the host's memory; in memory of the session's own otherwise. States that are
// kept in parts (schema/graph/state_storage.h) live there, and go in and out as the values they mean. Of a state that ranks
// share, each has its shard: whole values come in on all ranks, and go out by an exchange in which all take part. A slice that is
// kept in parts itself has no memory: requests for the state that it is a slice of go through it to the parts.
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

// Copies of the memory of states, one behind the other, and which values they hold: of a state that ranks share, those that
// this one keeps.
struct StateCopies {
  struct Value {
    int32_t state = -1;
    const StateFormat* format = nullptr;  // null: the copy is the value
    // Where the copies of its parts begin, or that of the whole in [0].
    std::array<int64_t, StateFormat::kMaxParts> at{};
    TensorType type = {};
  };
  std::vector<MemoryPart> parts;
  std::vector<Value> values;  // of states that are not here nobody has written
  int64_t bytes = 0;
  int64_t decoded_bytes = 0;  // of the values that are kept in parts
};

class StateMemory {
 public:
  // `collectives`: for states that ranks share; null: they can be set and not be copied.
  StateMemory(const Model& model, Device& device, std::shared_ptr<Collectives> collectives = {});

  // From now on the members of `storage` live in their parts, which are states of `tables`, a model that begins
  // with the states of the one before. Every address changes; the memory there was goes to `outlived`, for who
  // still reads it, or back to the device.
  void keep_as(const Model& tables, const StateStorage& storage, std::vector<DeviceMemory>* outlived);

  std::byte* data(int32_t state);     // readable by the device; made on first use
  bool make_writable(int32_t state);  // true when the address changed
  // The same for many at once, which share one allocation: how many changed.
  int64_t make_writable(const std::vector<int32_t>& states);
  void set(int32_t state, const Tensor& value);
  void reset(int32_t state);         // back to its initial value
  Tensor copy(int32_t state) const;  // of a state that ranks share: called by all of them
  bool is_shared(int32_t state) const {
    return is_encoded(state) && membership(state).group->shard && !model_->state(state).encoded;
  }
  bool shares() const { return storage_.has_shards(); }
  const StateStorage& storage() const { return storage_; }
  // Of this rank alone: a state, or of one that ranks share the part that this one keeps, flat; and the type of that.
  Tensor kept(int32_t state) const;
  TensorType kept_type(int32_t state) const;
  // Why the ranks can exchange no more data; empty: they can. Any thread may ask.
  std::string failure_of_ranks() const { return collectives_ ? collectives_->failure() : ""; }
  // The states that the model has encoded, with their parts as they are now; and back: how many addresses changed. Of what ranks
  // have slices of, the whole.
  std::map<int32_t, EncodedValues> encoded() const;
  int64_t set_encoded(const std::map<int32_t, EncodedValues>& values);
  const EncodedValues& encoded_values(int32_t state) const;
  // Of those that `is_wanted`, but caches.
  StateCopies copies(const std::function<bool(int32_t)>& is_wanted) const;
  int64_t owned_bytes(std::optional<StateRole> role = {}) const;  // empty: of all
  int64_t mapped_bytes() const;

  // The state in whose memory this one lives: itself, or the first of its parts.
  int32_t home(int32_t state) const;

  // What data() or make_writable() would still have to allocate.
  int64_t missing_bytes(int32_t state) const;

 private:
  // Of a state that is kept in parts: its group, and how many values lie there before its own, in parts that hold all
  // values and in shards.
  struct Membership {
    const StoredGroup* group = nullptr;  // null: the state is kept as it is
    int64_t first = 0, first_of_shard = 0;
    Shard shard = {};  // of its values, where the group has shards

    int64_t first_in(size_t part) const { return group->is_shard(part) ? first_of_shard : first; }
  };

  const Membership& membership(int32_t state) const { return memberships_[static_cast<size_t>(state)]; }
  bool is_encoded(int32_t state) const { return membership(state).group != nullptr; }
  // What this rank has of it, where that is kept in parts again; else -1.
  int32_t stored_slice(int32_t state) const;
  // Of a slice: the state that it is cut from; else -1.
  int32_t whole_of(int32_t state) const;
  bool is_encoded_in_model(int32_t state) const;  // or what it is a slice of
  Tensor encoded_part(int32_t slice, int32_t part) const;
  DeviceMemory& owned(int32_t state) { return owned_[static_cast<size_t>(state)]; }
  const DeviceMemory& owned(int32_t state) const { return owned_[static_cast<size_t>(state)]; }
  bool owns_all(const StoredGroup& group) const;
  void add_members(const StoredGroup& group);
  void add_homes(int32_t state, std::vector<int32_t>& homes) const;  // the states that have its memory
  void begin_again(int32_t state);                                   // as what it starts from, or was set to
  void fill_initial(int32_t state, const Tensor& start);
  void encode_initial(int32_t member, const std::map<int32_t, int64_t>& fresh);
  StateFormat::Parts parts(int32_t member) const;       // some may be null
  StateFormat::Parts kept_parts(int32_t member) const;  // of the values that this rank keeps
  bool has_own_values(int32_t state) const;             // else nobody has written it
  void add_copy(int32_t state, StateCopies& copies) const;
  Tensor initial(int32_t state) const;            // empty: zeros
  void put(int32_t state, const Tensor& values);  // empty: zeros
  // Of a state in parts: what they hold of `values`, which may be empty for zeros, goes to `to`.
  void upload(int32_t state, const StateFormat::Parts& to, const Tensor& values);
  Tensor gathered(int32_t state) const;
  Tensor from_owner(int32_t state) const;
  RankGroup& ranks_with(int32_t state) const;
  DeviceMemory gathered_part(int32_t state, size_t part, std::byte* own) const;

  const Model* model_;
  Device& device_;
  const std::shared_ptr<Collectives> collectives_;
  std::vector<DeviceMemory> owned_;  // by state; null: read from the model
  // Of encoded states of which this rank has slices: what they were set to, whole. Nothing that runs writes them.
  std::map<int32_t, EncodedValues> given_;
  StateStorage storage_;
  std::vector<Membership> memberships_;        // by state
  std::vector<std::vector<int32_t>> members_;  // by state that is a part
};

}  // namespace genesis
