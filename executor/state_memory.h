// Where the states of a Session live: in the model's own (mapped, shared) bytes as long as nobody writes them
// and the device reads the host's memory; in memory of the session's own otherwise. States that are split
// live in their halves, and go in and out as the f32 they are.
#pragma once

#include <vector>

#include "executor/runtime/device.h"
#include "executor/runtime/downloads.h"
#include "executor/state_halves.h"
#include "passes/precision/weight_split.h"
#include "schema/graph/model.h"

namespace genesis {

// Copies of the memory of all states but caches, one behind the other, and which values they hold.
struct StateCopies {
  struct Value {
    int32_t state = -1;
    int64_t at = 0;      // where its copy begins, or that of its upper half
    int64_t lower = -1;  // where that of its lower half does; -1: it is whole
  };
  std::vector<MemoryPart> parts;
  std::vector<Value> values;  // of states that are not here nobody has written
  int64_t bytes = 0;
  int64_t joined_bytes = 0;  // of the values that lie in halves
};

class StateMemory {
 public:
  StateMemory(const Model& model, Device& device);

  // From now on the members of `split` live in their halves, which are states of `tables`, a model that
  // begins with the states of the one before. Every address changes; the memory there was goes to `outlived`,
  // for who still reads it, or back to the device.
  void split(const Model& tables, const passes::WeightSplit& split, std::vector<DeviceMemory>* outlived);

  std::byte* data(int32_t state);     // readable by the device; made on first use
  bool make_writable(int32_t state);  // true when the address changed
  // The same for many at once, which share one allocation: how many changed.
  int64_t make_writable(const std::vector<int32_t>& states);
  void set(int32_t state, const Tensor& value);
  void reset(int32_t state);  // back to its initial value
  Tensor copy(int32_t state) const;
  StateCopies copies() const;
  int64_t owned_bytes() const;
  int64_t mapped_bytes() const;

  // The state in whose memory this one lives: itself, or an upper half.
  int32_t home(int32_t state) const;

  // What data() or make_writable() would still have to allocate.
  int64_t missing_bytes(int32_t state) const;

 private:
  // Of a member: its halves, and where in them it begins.
  struct Place {
    int32_t upper = -1, lower = -1;
    int64_t first = 0;  // element
  };

  bool is_split(int32_t state) const { return places_[static_cast<size_t>(state)].upper >= 0; }
  const Place& place(int32_t state) const { return places_[static_cast<size_t>(state)]; }
  DeviceMemory& owned(int32_t state) { return owned_[static_cast<size_t>(state)]; }
  const DeviceMemory& owned(int32_t state) const { return owned_[static_cast<size_t>(state)]; }
  void add_places(const passes::SplitGroup& group);
  void fill_initial(int32_t state);
  HalvesMemory halves(int32_t member) const;      // of which one may be null
  const std::byte* initial(int32_t state) const;  // null: zeros

  const Model* model_;
  Device& device_;
  std::vector<DeviceMemory> owned_;            // by state; null: read from the model
  std::vector<Place> places_;                  // by state
  std::vector<std::vector<int32_t>> members_;  // by state that is a half
};

}  // namespace genesis
