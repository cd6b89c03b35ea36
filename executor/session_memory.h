// The memory of a session on its device: states, one arena that all entry points share, arenas of prepared values, and copies of
// constants. It binds compiled entry points to that memory. Only Session::Impl uses it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "executor/memory_report.h"
#include "executor/started_runs.h"
#include "executor/states/state_memory.h"

namespace genesis {

class SessionMemory {
 public:
  SessionMemory(const Model& model, Device& device, std::shared_ptr<Collectives> collectives)
      : device_(device), states_(model, device, std::move(collectives)) {}

  StateMemory& states() { return states_; }
  const StateMemory& states() const { return states_; }
  int64_t arena_bytes() const { return arena_bytes_; }  // the size of the shared arena

  // Returns true if no address that the runner of `compiled` knows has changed since it was last bound.
  bool is_bound(const Compiled& compiled) const { return compiled.generation == generation_; }
  // Gives the entry point all the memory that it needs, and its runner the addresses.
  void bind(Compiled& compiled, const NamedTensors& inputs);
  // Throws Error if a run, with the values that are prepared for it, needs more memory than the device, called `device_name` in the
  // message, has left. Allocates nothing, so that the error can say what would help.
  void check_fits(const Compiled& compiled, const std::string& device_name) const;

  // These change states; their calls are made inside Device::enter(). Allocation comes first, since it is the only step that can
  // fail once names and types have been checked.
  void set_states(const std::map<int32_t, Tensor>& values);
  // Sets the first bytes of states that are not kept in parts.
  void set_beginnings(const std::map<int32_t, Tensor>& values);
  void set_encoded(const std::map<int32_t, EncodedValues>& values);
  // See StateMemory::keep_as() and StateMemory::resize().
  void keep_as(const Model& tables, const StateStorage& storage, std::vector<DeviceMemory>* outlived);
  void resize_caches(const Model& tables);
  // Gives caches memory of the caller (StateAllocations::place).
  void place_caches(const std::map<int32_t, DeviceMemory>& memory);

 private:
  // Throws Error if an input is in the memory of another device.
  void check_places(const Plan& plan, const std::vector<std::byte*>& inputs) const;
  void prepare(Compiled& compiled);
  void prepare_arena(Compiled& compiled);
  void bind_tables(Compiled& compiled);
  std::byte* constant(Compiled& compiled, int32_t index);
  void add_need(const Compiled& compiled, std::set<int32_t>& states, MemoryNeed& need) const;
  bool takes_memory(const Compiled& compiled, int32_t state) const;

  Device& device_;
  StateMemory states_;
  DeviceMemory arena_;
  int64_t arena_bytes_ = 0;
  int64_t generation_ = 0;  // counts address changes, except those of inputs
};

// Returns the addresses of the entry point's inputs, by Plan::inputs. Inputs are never written.
std::vector<std::byte*> input_addresses(const Plan& plan, const NamedTensors& inputs);

}  // namespace genesis
