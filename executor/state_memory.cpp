#include "executor/state_memory.h"

#include <cstring>

namespace genesis {

StateMemory::StateMemory(const Model& model) : model_(model), owned_(model.states().size()) {}

std::byte* StateMemory::data(int32_t state) {
  auto& owned = owned_[static_cast<size_t>(state)];
  if (owned) return owned.get();
  const Tensor& initial = model_.state(state).initial;
  if (!initial.empty_handle())
    return const_cast<std::byte*>(initial.data());  // plans that write ask make_writable first
  make_writable(state);
  return owned.get();
}

bool StateMemory::make_writable(int32_t state) {
  auto& owned = owned_[static_cast<size_t>(state)];
  if (owned) return false;
  owned = allocate_memory(model_.state(state).type.bytes());
  fill_initial(state);
  return true;
}

void StateMemory::fill_initial(int32_t state) {
  const State& row = model_.state(state);
  std::byte* to = owned_[static_cast<size_t>(state)].get();
  const auto bytes = static_cast<size_t>(row.type.bytes());
  if (!row.initial.empty_handle())
    std::memcpy(to, row.initial.data(), bytes);
  else
    std::memset(to, 0, bytes);
}

void StateMemory::set(int32_t state, const Tensor& value) {
  const State& row = model_.state(state);
  if (!(value.type() == row.type))
    fail("state '{}' is {}, the tensor given for it is {}", row.name, row.type.to_string(),
         value.type().to_string());
  if (value.empty_handle()) fail("the tensor given for state '{}' holds no data", row.name);
  make_writable(state);
  std::memcpy(owned_[static_cast<size_t>(state)].get(), value.data(), static_cast<size_t>(value.bytes()));
}

void StateMemory::reset(int32_t state) {
  if (owned_[static_cast<size_t>(state)]) fill_initial(state);
}

Tensor StateMemory::copy(int32_t state) const {
  const State& row = model_.state(state);
  const auto& owned = owned_[static_cast<size_t>(state)];
  if (owned) return Tensor::copy_of(row.type, owned.get());
  return row.initial.empty_handle() ? Tensor::zeros(row.type) : row.initial;
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
