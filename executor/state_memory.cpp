#include "executor/state_memory.h"

#include <map>
#include <utility>

namespace genesis {
namespace {

constexpr int64_t kAlignment = 256;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

StateMemory::StateMemory(const Model& model, Device& device)
    : model_(&model),
      device_(device),
      owned_(model.states().size()),
      places_(model.states().size()),
      members_(model.states().size()) {}

// Allocations are shared, so nothing is given back before all of it has been read.
void StateMemory::split(const Model& tables, const passes::WeightSplit& split,
                        std::vector<DeviceMemory>* outlived) {
  std::map<int32_t, Tensor> kept;
  for (size_t i = 0; i < owned_.size(); ++i)
    if (owned_[i]) kept.emplace(static_cast<int32_t>(i), copy(static_cast<int32_t>(i)));
  const size_t count = tables.states().size();
  if (outlived) *outlived = std::move(owned_);
  owned_.assign(count, nullptr);
  model_ = &tables;
  places_.resize(count);
  members_.resize(count);
  for (const passes::SplitGroup& group : split.groups) add_places(group);
  for (const auto& [state, value] : kept) set(state, value);
}

void StateMemory::add_places(const passes::SplitGroup& group) {
  int64_t first = 0;
  for (int32_t member : group.members) {
    places_[static_cast<size_t>(member)] = {group.upper, group.lower, first};
    first += model_->state(member).type.numel();
  }
  for (int32_t half : {group.upper, group.lower}) members_[static_cast<size_t>(half)] = group.members;
}

int32_t StateMemory::home(int32_t state) const { return is_split(state) ? place(state).upper : state; }

std::byte* StateMemory::data(int32_t state) {
  if (owned(state)) return owned(state).get();
  const Tensor& initial = model_->state(state).initial;
  if (!initial.empty_handle() && device_.reads_host_memory())
    return const_cast<std::byte*>(initial.data());  // plans that write ask make_writable first
  make_writable(state);
  return owned(state).get();
}

bool StateMemory::make_writable(int32_t state) { return make_writable(std::vector{state}) > 0; }

int64_t StateMemory::make_writable(const std::vector<int32_t>& states) {
  std::map<int32_t, int64_t> offsets;  // of those that have no memory yet
  int64_t bytes = 0;
  const auto add = [&](int32_t state) {
    if (!owned(state) && offsets.emplace(state, bytes).second)
      bytes += aligned(model_->state(state).type.bytes());
  };
  for (int32_t state : states) {
    add(home(state));
    if (is_split(state)) add(place(state).lower);
  }
  if (offsets.empty()) return 0;
  const DeviceMemory all = device_.allocate(bytes);
  for (const auto& [state, offset] : offsets) owned(state) = DeviceMemory(all, all.get() + offset);
  // A member is split once for both halves, by the upper one, unless only the lower is new.
  for (const auto& [state, offset] : offsets) {
    const auto& members = members_[static_cast<size_t>(state)];
    if (members.empty()) fill_initial(state);
    for (int32_t member : members) {
      const Place& at = place(member);
      const bool upper = offsets.contains(at.upper), lower = offsets.contains(at.lower);
      if (state == at.lower && upper) continue;
      const HalvesMemory to = halves(member);
      upload_halves(device_, {upper ? to.upper : nullptr, lower ? to.lower : nullptr}, initial(member),
                    model_->state(member).type.numel());
    }
  }
  return static_cast<int64_t>(offsets.size());
}

HalvesMemory StateMemory::halves(int32_t member) const {
  const Place& at = place(member);
  const int64_t offset = at.first * static_cast<int64_t>(sizeof(uint16_t));
  const auto part = [&](int32_t half) { return owned(half) ? owned(half).get() + offset : nullptr; };
  return {part(at.upper), part(at.lower)};
}

const std::byte* StateMemory::initial(int32_t state) const {
  const Tensor& initial = model_->state(state).initial;
  return initial.empty_handle() ? nullptr : initial.data();
}

void StateMemory::fill_initial(int32_t state) {
  const int64_t bytes = model_->state(state).type.bytes();
  if (const std::byte* from = initial(state))
    device_.upload(owned(state).get(), from, bytes);
  else
    device_.clear(owned(state).get(), bytes);
}

void StateMemory::set(int32_t state, const Tensor& value) {
  const State& row = model_->state(state);
  if (!(value.type() == row.type))
    fail("state '{}' is {}, the tensor given for it is {}", row.name, row.type.to_string(),
         value.type().to_string());
  if (value.empty_handle()) fail("the tensor given for state '{}' holds no data", row.name);
  make_writable(state);
  if (!is_split(state)) return device_.upload(owned(state).get(), value.data(), value.bytes());
  upload_halves(device_, halves(state), value.data(), value.type().numel());
}

void StateMemory::reset(int32_t state) {
  if (is_split(state))
    return upload_halves(device_, halves(state), initial(state), model_->state(state).type.numel());
  if (owned(state)) fill_initial(state);
}

// Where only one half has memory of its own nobody has written either.
Tensor StateMemory::copy(int32_t state) const {
  const State& row = model_->state(state);
  if (is_split(state)) {
    const HalvesMemory from = halves(state);
    if (from.upper && from.lower) return read_halves(device_, row.type, from);
  } else if (owned(state)) {
    return read_tensor(device_, row.type, owned(state).get());
  }
  return row.initial.empty_handle() ? Tensor::zeros(row.type) : row.initial;
}

StateCopies StateMemory::copies() const {
  StateCopies copies;
  std::vector<int64_t> offsets(owned_.size(), -1);
  for (size_t i = 0; i < owned_.size(); ++i) {
    const State& state = model_->state(static_cast<int32_t>(i));
    if (!owned_[i] || state.role == StateRole::kCache) continue;
    offsets[i] = copies.bytes;
    copies.parts.push_back({owned_[i].get(), state.type.bytes(), copies.bytes});
    copies.bytes += aligned(state.type.bytes());
  }
  const auto offset_of = [&](int32_t state) { return offsets[static_cast<size_t>(state)]; };
  for (int32_t i = 0; i < static_cast<int32_t>(owned_.size()); ++i) {
    if (is_split(i)) {
      const Place& at = place(i);
      if (!owned(at.upper) || !owned(at.lower)) continue;  // as copy() has it
      const int64_t first = at.first * static_cast<int64_t>(sizeof(uint16_t));
      copies.values.push_back({i, offset_of(at.upper) + first, offset_of(at.lower) + first});
      copies.joined_bytes += model_->state(i).type.bytes();
    } else if (offset_of(i) >= 0 && members_[static_cast<size_t>(i)].empty()) {
      copies.values.push_back({i, offset_of(i)});
    }
  }
  return copies;
}

int64_t StateMemory::missing_bytes(int32_t state) const {
  return owned(state) ? 0 : model_->state(state).type.bytes();
}

int64_t StateMemory::owned_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < owned_.size(); ++i)
    if (owned_[i]) bytes += model_->state(static_cast<int32_t>(i)).type.bytes();
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
