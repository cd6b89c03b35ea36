// Owns the device memory of a session's states: allocates it, frees it, and gives caches another size. To this layer a state is a
// tensor of bytes: it knows neither formats nor ranks. StateMemory decides which states get memory, and when.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "executor/runtime/device.h"
#include "schema/graph/model.h"

namespace genesis {

// Several states share an allocation, each from a multiple of this many bytes.
constexpr int64_t aligned_state_bytes(int64_t bytes) { return (bytes + 255) / 256 * 256; }

class StateAllocations {
 public:
  // `tables` lists the states, parts included; it and the device must outlive this object. No state has memory yet.
  StateAllocations(const Model& tables, Device& device)
      : tables_(&tables), device_(device), owned_(tables.states().size()) {}

  // Takes other tables, of which only placed states have memory, and returns the memory of the states so far.
  std::vector<DeviceMemory> restart(const Model& tables);

  std::byte* at(int32_t state) const { return memory(state).get(); }  // null: the state has no memory
  bool has(int32_t state) const { return at(state) != nullptr; }
  const DeviceMemory& memory(int32_t state) const { return owned_[static_cast<size_t>(state)]; }

  // Allocates memory for those of `states` that have none, and returns these, sorted. Throws Error if the device has too little;
  // then nothing has changed.
  std::vector<int32_t> allocate(const std::vector<int32_t>& states);
  // Gives a state memory of the caller, or takes it (null). restart() leaves it where it is; resize() cannot give it another size.
  void place(int32_t state, DeviceMemory memory);
  bool is_placed(int32_t state) const { return placed_.contains(state); }
  // Writes or reads the bytes of a state that has memory. Without values fill() writes zeros.
  void fill(int32_t state, const Tensor& values);
  Tensor read(int32_t state) const;

  // Gives caches the sizes that they have in `tables`, whose states differ from the current ones in one axis of caches only.
  // Values keep their places, and new places have the initial value. Every address of these states changes. Throws Error if there
  // is not enough memory; then nothing has changed but addresses.
  void resize(const Model& tables);

  int64_t owned_bytes(std::optional<StateRole> role = {}) const;  // empty: of all roles
  // Returns the bytes that allocate() would still have to take for the state.
  int64_t missing_bytes(int32_t state) const;

 private:
  const Model* tables_;
  Device& device_;
  std::vector<DeviceMemory> owned_;  // by state
  std::set<int32_t> placed_;
};

}  // namespace genesis
