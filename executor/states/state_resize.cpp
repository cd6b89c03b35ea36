// The part of StateMemory that gives caches another size.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "executor/states/state_memory.h"

namespace genesis {

// The values wait in the host's memory, so that the device never holds both sizes.
void StateMemory::resize(const Model& tables) {
  std::map<int32_t, Tensor> kept;
  for (int32_t i = 0; i < static_cast<int32_t>(owned_.size()); ++i)
    if (owned(i) && !(tables.state(i).type == model_->state(i).type)) kept.emplace(i, copy(i));
  for (const auto& [state, values] : kept) owned(state).reset();
  const Model* before = std::exchange(model_, &tables);
  try {
    put_resized(kept);
  } catch (const Error&) {
    for (const auto& [state, values] : kept) owned(state).reset();
    model_ = before;
    put_resized(kept);
    throw;
  }
}

// Writes values of caches whose size along one axis may have changed since.
void StateMemory::put_resized(const std::map<int32_t, Tensor>& values) {
  std::vector<int32_t> states;
  for (const auto& [state, old] : values) states.push_back(state);
  make_writable(states);
  for (const auto& [state, old] : values) {
    const std::vector<int64_t> from = old.type().shape.sizes(), to = model_->state(state).type.shape.sizes();
    const auto axis = std::ranges::mismatch(from, to).in1;
    const int64_t blocks = std::accumulate(from.begin(), axis, int64_t{1}, std::multiplies<>());
    if (blocks == 0 || old.bytes() == 0) continue;
    const int64_t old_bytes = old.bytes() / blocks, bytes = model_->state(state).type.bytes() / blocks;
    for (int64_t i = 0; i < blocks; ++i)
      device_.upload(owned(state).get() + i * bytes, old.data() + i * old_bytes, std::min(bytes, old_bytes));
  }
}

}  // namespace genesis
