#include "executor/states/state_allocations.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "schema/graph/caches.h"

namespace genesis {

std::vector<DeviceMemory> StateAllocations::restart(const Model& tables) {
  tables_ = &tables;
  std::vector<DeviceMemory> before = std::exchange(owned_, std::vector<DeviceMemory>(tables.states().size()));
  for (const int32_t state : placed_) owned_[static_cast<size_t>(state)] = before[static_cast<size_t>(state)];
  return before;
}

void StateAllocations::place(int32_t state, DeviceMemory memory) {
  if (memory)
    placed_.insert(state);
  else
    placed_.erase(state);
  owned_[static_cast<size_t>(state)] = std::move(memory);
}

// There is one allocation for the caches of texts, which resize() can free, and one for all others.
std::vector<int32_t> StateAllocations::allocate(const std::vector<int32_t>& states) {
  std::map<int32_t, DeviceMemory> fresh;
  for (const bool caches : {false, true}) {
    std::map<int32_t, int64_t> offsets;
    int64_t bytes = 0;
    for (const int32_t state : states)
      if (!has(state) && cache_layout(tables_->state(state)).has_value() == caches &&
          offsets.emplace(state, bytes).second)
        bytes += aligned_state_bytes(tables_->state(state).type.bytes());
    if (offsets.empty()) continue;
    const DeviceMemory all = device_.allocate(bytes);
    for (const auto& [state, offset] : offsets) fresh[state] = DeviceMemory(all, all.get() + offset);
  }
  std::vector<int32_t> allocated;
  for (auto& [state, memory] : fresh) {
    owned_[static_cast<size_t>(state)] = std::move(memory);
    allocated.push_back(state);
  }
  return allocated;
}

void StateAllocations::fill(int32_t state, const Tensor& values) {
  const int64_t bytes = tables_->state(state).type.bytes();
  if (!values.empty_handle())
    device_.upload(at(state), values.data(), bytes);
  else
    device_.clear(at(state), bytes);
}

Tensor StateAllocations::read(int32_t state) const {
  return read_tensor(device_, tables_->state(state).type, at(state));
}

namespace {

// Copies values of a cache whose size along one axis has changed from `old` to `type`.
void upload_to_places(Device& device, const Tensor& old, const TensorType& type, std::byte* to) {
  const std::vector<int64_t> before = old.type().shape.sizes(), after = type.shape.sizes();
  const auto axis = std::ranges::mismatch(before, after).in1;
  const int64_t blocks = std::accumulate(before.begin(), axis, int64_t{1}, std::multiplies<>());
  if (blocks == 0 || old.bytes() == 0) return;
  const int64_t old_bytes = old.bytes() / blocks, bytes = type.bytes() / blocks;
  for (int64_t i = 0; i < blocks; ++i)
    device.upload(to + i * bytes, old.data() + i * old_bytes, std::min(bytes, old_bytes));
}

}  // namespace

// The values wait in the host's memory, so that the device never holds both sizes.
void StateAllocations::resize(const Model& tables) {
  std::map<int32_t, Tensor> kept;
  for (int32_t i = 0; i < static_cast<int32_t>(owned_.size()); ++i)
    if (has(i) && !(tables.state(i).type == tables_->state(i).type)) kept.emplace(i, read(i));
  std::vector<int32_t> states;
  for (const auto& [state, values] : kept) states.push_back(state);
  const auto take = [&](const Model& sizes) {
    for (const int32_t state : states) owned_[static_cast<size_t>(state)].reset();
    tables_ = &sizes;
    allocate(states);
    for (const auto& [state, values] : kept) {
      fill(state, tables_->state(state).initial);
      upload_to_places(device_, values, tables_->state(state).type, at(state));
    }
  };
  const Model& before = *tables_;
  try {
    take(tables);
  } catch (const Error&) {
    take(before);
    throw;
  }
}

int64_t StateAllocations::missing_bytes(int32_t state) const {
  return has(state) ? 0 : tables_->state(state).type.bytes();
}

int64_t StateAllocations::owned_bytes(std::optional<StateRole> role) const {
  int64_t bytes = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(owned_.size()); ++i) {
    const State& state = tables_->state(i);
    if (has(i) && state.role == role.value_or(state.role)) bytes += state.type.bytes();
  }
  return bytes;
}

}  // namespace genesis
