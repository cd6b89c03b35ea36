#include "executor/states/state_memory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "executor/states/encoded_transfers.h"
#include "schema/graph/state_cuts.h"

namespace genesis {
namespace {

Tensor with_type(const TensorType& type, const Tensor& values) {
  return Tensor(type, std::make_shared<Tensor>(values), values.data());
}

}  // namespace

StateMemory::StateMemory(const Model& model, Device& device, std::shared_ptr<Collectives> collectives)
    : model_(&model),
      device_(device),
      places_(model),
      bytes_(model, device),
      ranks_(device, std::move(collectives)) {}

// States share allocations, so no memory is released before all of it has been read.
void StateMemory::keep_as(const Model& tables, const StateStorage& storage,
                          std::vector<DeviceMemory>* outlived) {
  std::map<int32_t, Tensor> kept;
  for (int32_t i = 0; i < static_cast<int32_t>(model_->states().size()); ++i)
    if (bytes_.has(i) && !bytes_.is_placed(i)) kept.emplace(i, copy(i));
  std::vector<DeviceMemory> before = bytes_.restart(tables);
  if (outlived) *outlived = std::move(before);
  before.clear();
  model_ = &tables;
  places_ = StoredPlaces(tables, storage);
  for (const auto& [state, value] : kept) set(state, value);
}

void StateMemory::resize(const Model& tables) {
  bytes_.resize(tables);
  places_.set_tables(tables);
  model_ = &tables;
}

std::byte* StateMemory::data(int32_t state) {
  if (bytes_.has(state)) return bytes_.at(state);
  const Tensor& initial = model_->state(state).initial;
  if (!initial.empty_handle() && device_.reads_host_memory())
    return const_cast<std::byte*>(initial.data());  // plans that write call make_writable() first
  make_writable(state);
  return bytes_.at(state);
}

bool StateMemory::make_writable(int32_t state) { return make_writable(std::vector{state}) > 0; }

int64_t StateMemory::make_writable(const std::vector<int32_t>& states) {
  const std::vector<int32_t> fresh = bytes_.allocate(places_.homes(states));
  std::set<int32_t> members;  // each is encoded once for all its parts
  for (const int32_t state : fresh) {
    const std::vector<int32_t>& of_part = places_.members_of(state);
    // A part of a state that the model has encoded starts with the model's encoded bytes.
    const Tensor start = initial(state);
    if (!start.empty_handle())
      bytes_.fill(state, start);
    else if (!of_part.empty())  // other memory is zero, as the device has allocated it
      members.insert(of_part.begin(), of_part.end());
  }
  for (int32_t member : members) encode_initial(member, fresh);
  return static_cast<int64_t>(fresh.size());
}

// Encodes only into the `fresh` parts: the others hold results of runs.
void StateMemory::encode_initial(int32_t member, const std::vector<int32_t>& fresh) {
  const StoredGroup& group = *places_.of(member).group;
  StateFormat::Parts to = parts(member);
  for (size_t i = 0; i < group.parts.size(); ++i)
    if (!std::ranges::binary_search(fresh, group.parts[i])) to[i] = nullptr;
  upload(member, to, initial(member));
}

// Parts that are shards get only this rank's values.
void StateMemory::upload(int32_t state, const StateFormat::Parts& to, const Tensor& values) {
  const StoredPlace& at = places_.of(state);
  StateFormat::Parts whole{}, shards{};
  for (size_t i = 0; i < at.group->parts.size(); ++i) (at.group->is_shard(i) ? shards : whole)[i] = to[i];
  const auto is_wanted = [](const StateFormat::Parts& parts) {
    return std::ranges::any_of(parts, [](const std::byte* part) { return part != nullptr; });
  };
  if (is_wanted(whole))
    upload_values(device_, *at.group->format, whole, values.data(), model_->state(state).type.numel());
  if (is_wanted(shards))
    upload_values(device_, *at.group->format, shards, cut(at.shard, values).data(), at.shard.numel());
}

void StateMemory::put(int32_t state, const Tensor& values) {
  if (const int32_t slice = places_.stored_slice(state); slice >= 0)
    return put(slice, cut(places_.of(state).shard, values));
  upload(state, parts(state), values);
}

StateFormat::Parts StateMemory::parts(int32_t member) const {
  const StoredPlace& at = places_.of(member);
  StateFormat::Parts parts{};
  for (size_t i = 0; i < at.group->parts.size(); ++i)
    if (std::byte* memory = bytes_.at(at.group->parts[i]))
      parts[i] = memory + at.group->format->part_bytes(i, at.first_in(i));
  return parts;
}

// A part that is not sharded holds all values, those of this rank's shard contiguously.
StateFormat::Parts StateMemory::kept_parts(int32_t member) const {
  const StoredPlace& at = places_.of(member);
  StateFormat::Parts kept = parts(member);
  for (size_t i = 0; at.group->shard && i < at.group->whole_parts; ++i)
    if (kept[i]) kept[i] += at.group->format->part_bytes(i, at.shard.first);
  return kept;
}

bool StateMemory::owns_all(const StoredGroup& group) const {
  return std::ranges::all_of(group.parts, [&](int32_t part) { return bytes_.has(part); });
}

// A slice starts with its slice of the whole state's initial value.
Tensor StateMemory::initial(int32_t state) const {
  const Tensor& own = model_->state(state).initial;
  const std::vector<int32_t>& members = places_.members_of(state);
  if (!own.empty_handle() || members.size() != 1) return own;
  if (places_.whole_of(state) >= 0) return cut(places_.of(members[0]).shard, initial(members[0]));
  const bool is_in_slice = places_.whole_of(members[0]) >= 0 && places_.is_encoded_in_model(members[0]);
  return is_in_slice ? encoded_part(members[0], state) : own;
}

// Values that are encoded together in a block always lie in one slice.
Tensor StateMemory::encoded_part(int32_t slice, int32_t part) const {
  const StoredGroup& group = *places_.of(slice).group;
  const auto index = static_cast<size_t>(std::ranges::find(group.parts, part) - group.parts.begin());
  const int32_t whole = places_.whole_of(slice);
  return cut(in_blocks(places_.of(whole).shard, group.format->parts[index].values_each),
             encoded_values(whole).parts[index]);
}

const EncodedValues& StateMemory::encoded_values(int32_t state) const {
  const auto given = given_.find(state);
  return given == given_.end() ? model_->state(state).encoded : given->second;
}

void StateMemory::set(int32_t state, const Tensor& value) {
  const State& row = model_->state(state);
  if (!(value.type() == row.type))
    fail("state '{}' is {}, the tensor given for it is {}", row.name, row.type.to_string(),
         value.type().to_string());
  if (value.empty_handle()) fail("the tensor given for state '{}' holds no data", row.name);
  if (row.encoded && places_.stored_slice(state) >= 0) {
    with_context(
        [&] {
          set_encoded({{state, encode_tensor(*row.encoded.format, value)}});
        },
        [&] { return "in the tensor given for state '" + row.name + "'"; });
    return;
  }
  make_writable(state);
  if (!places_.is_in_parts(state)) return bytes_.fill(state, value);
  with_context([&] { put(state, value); },
               [&] { return "in the tensor given for state '" + row.name + "'"; });
}

void StateMemory::reset(int32_t state) {
  given_.erase(state);
  begin_again(state);
}

void StateMemory::begin_again(int32_t state) {
  if (places_.is_in_parts(state) && places_.is_encoded_in_model(state)) {
    for (const int32_t part : places_.of(state).group->parts) begin_again(part);
    return;
  }
  if (places_.is_in_parts(state)) return put(state, initial(state));
  if (bytes_.has(state)) bytes_.fill(state, initial(state));
}

// If only some of the parts have memory of their own, the state has never been written, so its initial value still holds.
Tensor StateMemory::copy(int32_t state) const {
  const State& row = model_->state(state);
  if (row.encoded && places_.stored_slice(state) >= 0) return decode_tensor(encoded_values(state), row.type);
  if (places_.is_in_parts(state)) {
    const StoredGroup& group = *places_.of(state).group;
    if (group.shard && group.shard->owner) return from_owner(state);
    if (has_own_values(state) && group.shard) return gathered(state);
    if (has_own_values(state)) return read_values(device_, *group.format, row.type, parts(state));
  } else if (bytes_.has(state)) {
    return bytes_.read(state);
  }
  const Tensor start = row.encoded ? initial_value(row) : initial(state);
  return start.empty_handle() ? Tensor::zeros(row.type) : start;
}

// Goes through device memory, since that is what ranks exchange.
Tensor StateMemory::gathered(int32_t state) const {
  const State& row = model_->state(state);
  const StoredPlace& at = places_.of(state);
  const StateFormat& format = *at.group->format;
  StateFormat::Parts own = parts(state);
  std::vector<DeviceMemory> held;
  if (const int32_t slice = places_.stored_slice(state); slice >= 0) {
    const Tensor values = copy(slice);
    own[0] = held.emplace_back(device_.allocate(values.bytes())).get();
    device_.upload(own[0], values.data(), values.bytes());
  }
  StateFormat::Parts whole = own;
  for (size_t i = 0; i < at.group->parts.size(); ++i) {
    if (!at.group->is_shard(i)) continue;
    const int64_t elements = at.shard.numel() / format.parts[i].values_each;
    held.push_back(ranks_.gathered(at.shard, own[i], elements, format.parts[i].dtype, row.name));
    whole[i] = held.back().get();
  }
  const Tensor values = read_values(device_, format, row.type, whole);
  ranks_.check("gathering state '" + row.name + "' from all ranks");
  return joined(at.shard, row.type, values);
}

// The owner always sends its value, since the other ranks cannot know if it has changed.
Tensor StateMemory::from_owner(int32_t state) const {
  const State& row = model_->state(state);
  const StoredPlace& at = places_.of(state);
  const StoredGroup& group = *at.group;
  const bool is_owner = ranks_.is_owner(*group.shard, row.name);
  DeviceMemory values = is_owner ? bytes_.memory(group.parts[0]) : nullptr;
  if (!values) {
    values = device_.allocate(row.type.bytes());
    if (is_owner)
      upload_values(device_, *group.format, {values.get()}, initial(state).data(), row.type.numel());
  }
  ranks_.send_from_owner(*group.shard, values.get(), row.type.numel(), row.type.dtype, row.name);
  Tensor value = read_values(device_, *group.format, row.type, {values.get()});
  ranks_.check("getting state '" + row.name + "' from its stage");
  return value;
}

std::map<int32_t, EncodedValues> StateMemory::encoded() const {
  std::map<int32_t, EncodedValues> all;
  for (const StoredGroup& group : storage().groups) {
    const int32_t state = group.members[0];
    if (!model_->state(state).encoded) continue;
    EncodedValues& values = all[state] = encoded_values(state);
    if (places_.stored_slice(state) < 0 && owns_all(group))
      for (size_t i = 0; i < group.parts.size(); ++i) values.parts[i] = copy(group.parts[i]);
  }
  return all;
}

int64_t StateMemory::set_encoded(const std::map<int32_t, EncodedValues>& all) {
  std::vector<int32_t> states;
  for (const auto& [state, values] : all) states.push_back(state);
  const int64_t moved = make_writable(states);
  for (const auto& [state, values] : all) {
    if (places_.stored_slice(state) >= 0) {
      given_[state] = values;
      begin_again(state);
      continue;
    }
    for (size_t i = 0; i < values.parts.size(); ++i) set(places_.of(state).group->parts[i], values.parts[i]);
  }
  return moved;
}

Tensor StateMemory::kept(int32_t state) const {
  if (!is_shared(state)) return copy(state);
  const StoredPlace& at = places_.of(state);
  const TensorType type = kept_type(state);
  if (const int32_t slice = places_.stored_slice(state); slice >= 0) return with_type(type, kept(slice));
  if (owns_all(*at.group)) return read_values(device_, *at.group->format, type, kept_parts(state));
  const Tensor part = cut(at.shard, initial(state));
  return part.empty_handle() ? Tensor::zeros(type) : with_type(type, part);
}

bool StateMemory::has_own_values(int32_t state) const {
  if (const int32_t slice = places_.stored_slice(state); slice >= 0)
    return !model_->state(state).encoded && has_own_values(slice);
  return places_.is_in_parts(state) ? owns_all(*places_.of(state).group) : bytes_.has(state);
}

StateCopies StateMemory::copies(const std::function<bool(int32_t)>& is_wanted) const {
  StateCopies copies;
  for (int32_t i = 0; i < static_cast<int32_t>(model_->states().size()); ++i) {
    const bool is_part = !places_.members_of(i).empty();
    if (!is_part && model_->state(i).role != StateRole::kCache && has_own_values(i) && is_wanted(i))
      add_copy(i, copies);
  }
  return copies;
}

void StateMemory::add_copy(int32_t state, StateCopies& copies) const {
  StateCopies::Value value{.state = state, .type = kept_type(state)};
  const auto add = [&](size_t part, const std::byte* from, int64_t bytes) {
    value.at[part] = copies.bytes;
    copies.parts.push_back({from, bytes, copies.bytes});
    copies.bytes += aligned_state_bytes(bytes);
  };
  const int32_t slice = places_.stored_slice(state), stored = slice >= 0 ? slice : state;
  if (const StoredGroup* group = places_.of(stored).group) {
    value.format = group->format;
    const StateFormat::Parts from = kept_parts(stored);
    for (size_t part = 0; part < group->parts.size(); ++part)
      add(part, from[part], group->format->part_bytes(part, value.type.numel()));
    copies.decoded_bytes += value.type.bytes();
  } else {
    add(0, bytes_.at(state), value.type.bytes());
  }
  copies.values.push_back(value);
}

int64_t StateMemory::mapped_bytes() const {
  int64_t bytes = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(model_->states().size()); ++i) {
    const Tensor& initial = model_->state(i).initial;
    if (!bytes_.has(home(i)) && !initial.empty_handle()) bytes += initial.bytes();
  }
  return bytes;
}

}  // namespace genesis
