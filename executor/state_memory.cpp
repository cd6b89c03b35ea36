#include "executor/state_memory.h"

#include <map>

namespace genesis {
namespace {

constexpr int64_t kAlignment = 256;

}  // namespace

StateMemory::StateMemory(const Model& model, Device& device)
    : model_(model), device_(device), owned_(model.states().size()) {}

std::byte* StateMemory::data(int32_t state) {
  auto& owned = owned_[static_cast<size_t>(state)];
  if (owned) return owned.get();
  const Tensor& initial = model_.state(state).initial;
  if (!initial.empty_handle() && device_.reads_host_memory())
    return const_cast<std::byte*>(initial.data());  // plans that write ask make_writable first
  make_writable(state);
  return owned.get();
}

bool StateMemory::make_writable(int32_t state) { return make_writable(std::vector{state}) > 0; }

int64_t StateMemory::make_writable(const std::vector<int32_t>& states) {
  std::map<int32_t, int64_t> offsets;  // of those that have no memory yet
  int64_t bytes = 0;
  for (int32_t state : states)
    if (!owned_[static_cast<size_t>(state)] && offsets.emplace(state, bytes).second)
      bytes += (model_.state(state).type.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  if (offsets.empty()) return 0;
  const DeviceMemory all = device_.allocate(bytes);
  for (const auto& [state, offset] : offsets) {
    owned_[static_cast<size_t>(state)] = DeviceMemory(all, all.get() + offset);
    fill_initial(state);
  }
  return static_cast<int64_t>(offsets.size());
}

void StateMemory::fill_initial(int32_t state) {
  const State& row = model_.state(state);
  std::byte* to = owned_[static_cast<size_t>(state)].get();
  if (!row.initial.empty_handle())
    device_.upload(to, row.initial.data(), row.type.bytes());
  else
    device_.clear(to, row.type.bytes());
}

void StateMemory::set(int32_t state, const Tensor& value) {
  const State& row = model_.state(state);
  if (!(value.type() == row.type))
    fail("state '{}' is {}, the tensor given for it is {}", row.name, row.type.to_string(),
         value.type().to_string());
  if (value.empty_handle()) fail("the tensor given for state '{}' holds no data", row.name);
  make_writable(state);
  device_.upload(owned_[static_cast<size_t>(state)].get(), value.data(), value.bytes());
}

void StateMemory::reset(int32_t state) {
  if (owned_[static_cast<size_t>(state)]) fill_initial(state);
}

Tensor StateMemory::copy(int32_t state) const {
  const State& row = model_.state(state);
  const auto& owned = owned_[static_cast<size_t>(state)];
  if (owned) return read_tensor(device_, row.type, owned.get());
  return row.initial.empty_handle() ? Tensor::zeros(row.type) : row.initial;
}

int64_t StateMemory::missing_bytes(int32_t state) const {
  return owned_[static_cast<size_t>(state)] ? 0 : model_.state(state).type.bytes();
}

int64_t StateMemory::owned_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < owned_.size(); ++i)
    if (owned_[i]) bytes += model_.state(static_cast<int32_t>(i)).type.bytes();
  return bytes;
}

int64_t StateMemory::mapped_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < owned_.size(); ++i) {
    const Tensor& initial = model_.state(static_cast<int32_t>(i)).initial;
    if (!owned_[i] && !initial.empty_handle()) bytes += initial.bytes();
  }
  return bytes;
}

}  // namespace genesis
