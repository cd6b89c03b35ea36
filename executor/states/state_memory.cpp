#include "executor/states/state_memory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "executor/states/encoded_transfers.h"
#include "schema/graph/caches.h"
#include "schema/graph/state_cuts.h"

namespace genesis {
namespace {

constexpr int64_t kAlignment = 256;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

Tensor with_type(const TensorType& type, const Tensor& values) {
  return Tensor(type, std::make_shared<Tensor>(values), values.data());
}

// Returns what this rank keeps of all values; nothing if `all` is empty. Shares memory with `all` if the shard is contiguous.
Tensor taken(const Shard& shard, const Tensor& all) {
  if (all.empty_handle()) return {};
  const size_t value_bytes = size_of(all.type().dtype);
  const TensorType type{all.type().dtype, shard.shape.rank() > 0 ? shard.shape : Shape{shard.numel()}};
  if (shard.runs == 1)
    return Tensor(type, std::make_shared<Tensor>(all),
                  all.data() + static_cast<size_t>(shard.first) * value_bytes);
  std::byte* to;
  Tensor kept = Tensor::uninitialized(type, &to);
  shard.take(all.data(), all.type().numel(), value_bytes, to);
  return kept;
}

}  // namespace

StateMemory::StateMemory(const Model& model, Device& device, std::shared_ptr<Collectives> collectives)
    : model_(&model),
      device_(device),
      collectives_(std::move(collectives)),
      owned_(model.states().size()),
      memberships_(model.states().size()),
      members_(model.states().size()) {}

// States share allocations, so no memory is released before all of it has been read.
void StateMemory::keep_as(const Model& tables, const StateStorage& storage,
                          std::vector<DeviceMemory>* outlived) {
  std::map<int32_t, Tensor> kept;
  for (size_t i = 0; i < owned_.size(); ++i)
    if (owned_[i]) kept.emplace(static_cast<int32_t>(i), copy(static_cast<int32_t>(i)));
  const size_t count = tables.states().size();
  if (outlived) *outlived = std::move(owned_);
  owned_.assign(count, nullptr);
  model_ = &tables;
  storage_ = storage;
  memberships_.assign(count, {});
  members_.assign(count, {});
  for (const StoredGroup& group : storage_.groups) add_members(group);
  for (const auto& [state, value] : kept) set(state, value);
}

void StateMemory::add_members(const StoredGroup& group) {
  int64_t all = 0;
  for (int32_t member : group.members) all += model_->state(member).type.numel();
  Membership next{.group = &group};
  for (int32_t member : group.members) {
    const int64_t values = model_->state(member).type.numel();
    if (group.shard) next.shard = group.shard_of(values, all);
    memberships_[static_cast<size_t>(member)] = next;
    next.first += values;
    next.first_of_shard += next.shard.numel();
  }
  for (int32_t part : group.parts) members_[static_cast<size_t>(part)] = group.members;
}

int32_t StateMemory::home(int32_t state) const {
  return is_encoded(state) ? home(membership(state).group->parts[0]) : state;
}

int32_t StateMemory::stored_slice(int32_t state) const {
  if (!is_encoded(state) || !is_slice(*membership(state).group)) return -1;
  const int32_t slice = membership(state).group->parts[0];
  return is_encoded(slice) ? slice : -1;
}

int32_t StateMemory::whole_of(int32_t state) const {
  const std::vector<int32_t>& members = members_[static_cast<size_t>(state)];
  return members.size() == 1 && is_slice(*membership(members[0]).group) ? members[0] : -1;
}

bool StateMemory::is_encoded_in_model(int32_t state) const {
  const int32_t whole = whole_of(state);
  return bool(model_->state(whole >= 0 ? whole : state).encoded);
}

void StateMemory::add_homes(int32_t state, std::vector<int32_t>& homes) const {
  if (!is_encoded(state)) return homes.push_back(state);
  for (const int32_t part : membership(state).group->parts) add_homes(part, homes);
}

std::byte* StateMemory::data(int32_t state) {
  if (owned(state)) return owned(state).get();
  const Tensor& initial = model_->state(state).initial;
  if (!initial.empty_handle() && device_.reads_host_memory())
    return const_cast<std::byte*>(initial.data());  // plans that write call make_writable() first
  make_writable(state);
  return owned(state).get();
}

bool StateMemory::make_writable(int32_t state) { return make_writable(std::vector{state}) > 0; }

int64_t StateMemory::make_writable(const std::vector<int32_t>& states) {
  std::vector<int32_t> homes;
  for (const int32_t state : states) add_homes(state, homes);
  const std::map<int32_t, DeviceMemory> fresh = allocate(homes);
  for (const auto& [state, memory] : fresh) owned(state) = memory;
  std::set<int32_t> members;  // each is encoded once for all its parts
  for (const auto& [state, memory] : fresh) {
    const auto& of_part = members_[static_cast<size_t>(state)];
    // A part of a state that the model has encoded starts with the model's encoded bytes.
    const Tensor start = initial(state);
    if (of_part.empty() || !start.empty_handle())
      fill_initial(state, start);
    else
      members.insert(of_part.begin(), of_part.end());
  }
  for (int32_t member : members) encode_initial(member, fresh);
  return static_cast<int64_t>(fresh.size());
}

// Allocates memory for the states that have none yet: one allocation for the caches of texts, which resize() can free, and one
// for all others.
std::map<int32_t, DeviceMemory> StateMemory::allocate(const std::vector<int32_t>& homes) const {
  std::map<int32_t, DeviceMemory> fresh;
  for (const bool caches : {false, true}) {
    std::map<int32_t, int64_t> offsets;
    int64_t bytes = 0;
    for (const int32_t state : homes)
      if (!owned(state) && cache_layout(model_->state(state)).has_value() == caches &&
          offsets.emplace(state, bytes).second)
        bytes += aligned(model_->state(state).type.bytes());
    if (offsets.empty()) continue;
    const DeviceMemory all = device_.allocate(bytes);
    for (const auto& [state, offset] : offsets) fresh[state] = DeviceMemory(all, all.get() + offset);
  }
  return fresh;
}

// Encodes only into the `fresh` parts: the others hold results of runs.
void StateMemory::encode_initial(int32_t member, const std::map<int32_t, DeviceMemory>& fresh) {
  const StoredGroup& group = *membership(member).group;
  StateFormat::Parts to = parts(member);
  for (size_t i = 0; i < group.parts.size(); ++i)
    if (!fresh.contains(group.parts[i])) to[i] = nullptr;
  upload(member, to, initial(member));
}

void StateMemory::upload(int32_t state, const StateFormat::Parts& to, const Tensor& values) {
  const Membership& at = membership(state);
  StateFormat::Parts whole{}, shards{};
  for (size_t i = 0; i < at.group->parts.size(); ++i) (at.group->is_shard(i) ? shards : whole)[i] = to[i];
  const auto is_wanted = [](const StateFormat::Parts& parts) {
    return std::ranges::any_of(parts, [](const std::byte* part) { return part != nullptr; });
  };
  if (is_wanted(whole))
    upload_values(device_, *at.group->format, whole, values.data(), model_->state(state).type.numel());
  if (is_wanted(shards))
    upload_values(device_, *at.group->format, shards, taken(at.shard, values).data(), at.shard.numel());
}

void StateMemory::put(int32_t state, const Tensor& values) {
  if (const int32_t slice = stored_slice(state); slice >= 0)
    return put(slice, taken(membership(state).shard, values));
  upload(state, parts(state), values);
}

StateFormat::Parts StateMemory::parts(int32_t member) const {
  const Membership& at = membership(member);
  StateFormat::Parts parts{};
  for (size_t i = 0; i < at.group->parts.size(); ++i)
    if (const DeviceMemory& memory = owned(at.group->parts[i]))
      parts[i] = memory.get() + at.group->format->part_bytes(i, at.first_in(i));
  return parts;
}

// A part that is not sharded holds all values, those of this rank's shard contiguously.
StateFormat::Parts StateMemory::kept_parts(int32_t member) const {
  const Membership& at = membership(member);
  StateFormat::Parts kept = parts(member);
  for (size_t i = 0; at.group->shard && i < at.group->whole_parts; ++i)
    if (kept[i]) kept[i] += at.group->format->part_bytes(i, at.shard.first);
  return kept;
}

bool StateMemory::owns_all(const StoredGroup& group) const {
  return std::ranges::all_of(group.parts, [&](int32_t part) { return owned(part) != nullptr; });
}

// A slice starts with its slice of the whole state's initial value.
Tensor StateMemory::initial(int32_t state) const {
  const Tensor& own = model_->state(state).initial;
  const std::vector<int32_t>& members = members_[static_cast<size_t>(state)];
  if (!own.empty_handle() || members.size() != 1) return own;
  if (whole_of(state) >= 0) return taken(membership(members[0]).shard, initial(members[0]));
  return whole_of(members[0]) >= 0 && is_encoded_in_model(members[0]) ? encoded_part(members[0], state) : own;
}

// Values that are encoded together in a block always lie in one slice.
Tensor StateMemory::encoded_part(int32_t slice, int32_t part) const {
  const StoredGroup& group = *membership(slice).group;
  const auto index = static_cast<size_t>(std::ranges::find(group.parts, part) - group.parts.begin());
  const int32_t whole = whole_of(slice);
  return taken(in_blocks(membership(whole).shard, group.format->parts[index].values_each),
               encoded_values(whole).parts[index]);
}

const EncodedValues& StateMemory::encoded_values(int32_t state) const {
  const auto given = given_.find(state);
  return given == given_.end() ? model_->state(state).encoded : given->second;
}

void StateMemory::fill_initial(int32_t state, const Tensor& start) {
  const int64_t bytes = model_->state(state).type.bytes();
  if (!start.empty_handle())
    device_.upload(owned(state).get(), start.data(), bytes);
  else
    device_.clear(owned(state).get(), bytes);
}

void StateMemory::set(int32_t state, const Tensor& value) {
  const State& row = model_->state(state);
  if (!(value.type() == row.type))
    fail("state '{}' is {}, the tensor given for it is {}", row.name, row.type.to_string(),
         value.type().to_string());
  if (value.empty_handle()) fail("the tensor given for state '{}' holds no data", row.name);
  if (row.encoded && stored_slice(state) >= 0) {
    with_context(
        [&] {
          set_encoded({{state, encode_tensor(*row.encoded.format, value)}});
        },
        [&] { return "in the tensor given for state '" + row.name + "'"; });
    return;
  }
  make_writable(state);
  if (!is_encoded(state)) return device_.upload(owned(state).get(), value.data(), value.bytes());
  with_context([&] { put(state, value); },
               [&] { return "in the tensor given for state '" + row.name + "'"; });
}

void StateMemory::reset(int32_t state) {
  given_.erase(state);
  begin_again(state);
}

void StateMemory::begin_again(int32_t state) {
  if (is_encoded(state) && is_encoded_in_model(state)) {
    for (const int32_t part : membership(state).group->parts) begin_again(part);
    return;
  }
  if (is_encoded(state)) return put(state, initial(state));
  if (owned(state)) fill_initial(state, initial(state));
}

// If only some of the parts have memory of their own, the state has never been written, so its initial value still holds.
Tensor StateMemory::copy(int32_t state) const {
  const State& row = model_->state(state);
  if (row.encoded && stored_slice(state) >= 0) return decode_tensor(encoded_values(state), row.type);
  if (is_encoded(state)) {
    const StoredGroup& group = *membership(state).group;
    if (group.shard && group.shard->owner) return from_owner(state);
    if (has_own_values(state) && group.shard) return gathered(state);
    if (has_own_values(state)) return read_values(device_, *group.format, row.type, parts(state));
  } else if (owned(state)) {
    return read_tensor(device_, row.type, owned(state).get());
  }
  const Tensor start = row.encoded ? initial_value(row) : initial(state);
  return start.empty_handle() ? Tensor::zeros(row.type) : start;
}

// Goes through device memory, since that is what ranks exchange.
Tensor StateMemory::gathered(int32_t state) const {
  const State& row = model_->state(state);
  const StoredGroup& group = *membership(state).group;
  StateFormat::Parts own = parts(state);
  std::vector<DeviceMemory> held;
  if (const int32_t slice = stored_slice(state); slice >= 0) {
    const Tensor values = copy(slice);
    own[0] = held.emplace_back(device_.allocate(values.bytes())).get();
    device_.upload(own[0], values.data(), values.bytes());
  }
  StateFormat::Parts whole = own;
  for (size_t i = 0; i < group.parts.size(); ++i)
    if (group.is_shard(i)) whole[i] = held.emplace_back(gathered_part(state, i, own[i])).get();
  Tensor values = read_values(device_, *group.format, row.type, whole);
  if (const std::string failure = collectives_->failure(); !failure.empty())
    fail("while gathering state '{}' from all ranks: {}", row.name, failure);
  const Shard& shard = membership(state).shard;
  if (shard.runs == 1) return values;
  const auto joined = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(values.bytes()));
  shard.join(values.data(), row.type.numel(), size_of(row.type.dtype), joined->data());
  return Tensor(row.type, joined, joined->data());
}

RankGroup& StateMemory::ranks_with(int32_t state) const {
  const std::string& axis = membership(state).shard.axis;
  if (RankGroup* ranks = collectives_ ? collectives_->group(axis) : nullptr) return *ranks;
  fail(
      "every rank along '{1}' keeps a shard of state '{0}', and this session cannot exchange data with them: "
      "give SessionOptions::collectives",
      model_->state(state).name, axis);
}

// The owner always sends its value, since the other ranks cannot know if it has changed.
Tensor StateMemory::from_owner(int32_t state) const {
  const State& row = model_->state(state);
  const StoredGroup& group = *membership(state).group;
  RankGroup& ranks = ranks_with(state);
  const auto owner = static_cast<int>(*group.shard->owner);
  DeviceMemory values = ranks.rank() == owner ? owned(group.parts[0]) : nullptr;
  if (!values) {
    values = device_.allocate(row.type.bytes());
    if (ranks.rank() == owner)
      upload_values(device_, *group.format, {values.get()}, initial(state).data(), row.type.numel());
  }
  const Exchange exchange{values.get(), values.get(), row.type.numel(), row.type.dtype};
  device_.enter([&] { ranks.broadcast({&exchange, 1}, owner, device_.stream()); });
  Tensor value = read_values(device_, *group.format, row.type, {values.get()});
  if (const std::string failure = collectives_->failure(); !failure.empty())
    fail("while getting state '{}' from its stage: {}", row.name, failure);
  return value;
}

DeviceMemory StateMemory::gathered_part(int32_t state, size_t part, std::byte* own) const {
  const State& row = model_->state(state);
  const Membership& at = membership(state);
  const FormatPart& kind = at.group->format->parts[part];
  DeviceMemory whole = device_.allocate(at.group->format->part_bytes(part, row.type.numel()));
  const Exchange exchange{own, whole.get(), at.shard.numel() / kind.values_each, kind.dtype};
  device_.enter([&] { ranks_with(state).all_gather({&exchange, 1}, device_.stream()); });
  return whole;
}

std::map<int32_t, EncodedValues> StateMemory::encoded() const {
  std::map<int32_t, EncodedValues> all;
  for (const StoredGroup& group : storage_.groups) {
    const int32_t state = group.members[0];
    if (!model_->state(state).encoded) continue;
    EncodedValues& values = all[state] = encoded_values(state);
    if (stored_slice(state) < 0 && owns_all(group))
      for (size_t i = 0; i < group.parts.size(); ++i) values.parts[i] = copy(group.parts[i]);
  }
  return all;
}

int64_t StateMemory::set_encoded(const std::map<int32_t, EncodedValues>& all) {
  std::vector<int32_t> states;
  for (const auto& [state, values] : all) states.push_back(state);
  const int64_t moved = make_writable(states);
  for (const auto& [state, values] : all) {
    if (stored_slice(state) >= 0) {
      given_[state] = values;
      begin_again(state);
      continue;
    }
    for (size_t i = 0; i < values.parts.size(); ++i) set(membership(state).group->parts[i], values.parts[i]);
  }
  return moved;
}

TensorType StateMemory::kept_type(int32_t state) const {
  const TensorType& type = model_->state(state).type;
  if (model_->state(state).encoded) return type;  // whole, since every rank has the file
  if (const int32_t slice = stored_slice(state); slice >= 0) return {type.dtype, {kept_type(slice).numel()}};
  if (is_shared(state) && membership(state).shard.numel() == type.numel()) return type;
  return is_shared(state) ? TensorType{type.dtype, {membership(state).shard.numel()}} : type;
}

Tensor StateMemory::kept(int32_t state) const {
  if (!is_shared(state)) return copy(state);
  const StoredGroup& group = *membership(state).group;
  const TensorType type = kept_type(state);
  if (const int32_t slice = stored_slice(state); slice >= 0) return with_type(type, kept(slice));
  if (owns_all(group)) return read_values(device_, *group.format, type, kept_parts(state));
  const Tensor part = taken(membership(state).shard, initial(state));
  return part.empty_handle() ? Tensor::zeros(type) : with_type(type, part);
}

bool StateMemory::has_own_values(int32_t state) const {
  if (const int32_t slice = stored_slice(state); slice >= 0)
    return !model_->state(state).encoded && has_own_values(slice);
  return is_encoded(state) ? owns_all(*membership(state).group) : owned(state) != nullptr;
}

StateCopies StateMemory::copies(const std::function<bool(int32_t)>& is_wanted) const {
  StateCopies copies;
  for (int32_t i = 0; i < static_cast<int32_t>(members_.size()); ++i) {
    const bool is_part = !members_[static_cast<size_t>(i)].empty();
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
    copies.bytes += aligned(bytes);
  };
  const int32_t slice = stored_slice(state), stored = slice >= 0 ? slice : state;
  if (const StoredGroup* group = membership(stored).group) {
    value.format = group->format;
    const StateFormat::Parts from = kept_parts(stored);
    for (size_t part = 0; part < group->parts.size(); ++part)
      add(part, from[part], group->format->part_bytes(part, value.type.numel()));
    copies.decoded_bytes += value.type.bytes();
  } else {
    add(0, owned(state).get(), value.type.bytes());
  }
  copies.values.push_back(value);
}

int64_t StateMemory::missing_bytes(int32_t state) const {
  return owned(state) ? 0 : model_->state(state).type.bytes();
}

int64_t StateMemory::owned_bytes(std::optional<StateRole> role) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < owned_.size(); ++i) {
    const State& state = model_->state(static_cast<int32_t>(i));
    if (owned_[i] && state.role == role.value_or(state.role)) bytes += state.type.bytes();
  }
  return bytes;
}

int64_t StateMemory::mapped_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < owned_.size(); ++i) {
    const Tensor& initial = model_->state(static_cast<int32_t>(i)).initial;
    if (!owned(home(static_cast<int32_t>(i))) && !initial.empty_handle()) bytes += initial.bytes();
  }
  return bytes;
}

}  // namespace genesis
