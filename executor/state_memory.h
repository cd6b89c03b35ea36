// Where the states of a Session live: in the model's own (mapped, shared) bytes as long as nobody writes them
// and the device reads the host's memory; in memory of the session's own otherwise.
#pragma once

#include <vector>

#include "executor/device.h"
#include "schema/model.h"

namespace genesis {

class StateMemory {
 public:
  StateMemory(const Model& model, Device& device);

  std::byte* data(int32_t state);     // readable by the device; made on first use
  bool make_writable(int32_t state);  // true when the address changed
  // The same for many at once, which share one allocation: how many changed.
  int64_t make_writable(const std::vector<int32_t>& states);
  void set(int32_t state, const Tensor& value);
  void reset(int32_t state);  // back to its initial value
  Tensor copy(int32_t state) const;
  int64_t owned_bytes() const;
  int64_t mapped_bytes() const;

  // What data() or make_writable() would still have to allocate.
  int64_t missing_bytes(int32_t state) const;

 private:
  void fill_initial(int32_t state);

  const Model& model_;
  Device& device_;
  std::vector<DeviceMemory> owned_;  // by state; null: read from the model
};

}  // namespace genesis
