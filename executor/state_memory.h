// Where the states of a Session live: in the model's own (mapped, shared) bytes as long as nobody writes
// them, in memory of the session's own afterwards.
#pragma once

#include <memory>
#include <vector>

#include "executor/aligned_memory.h"
#include "schema/model.h"

namespace genesis {

class StateMemory {
 public:
  explicit StateMemory(const Model& model);

  std::byte* data(int32_t state);     // readable; zeros are made on first use
  bool make_writable(int32_t state);  // true when the address changed
  void set(int32_t state, const Tensor& value);
  void reset(int32_t state);  // back to its initial value
  Tensor copy(int32_t state) const;
  int64_t owned_bytes() const;
  int64_t mapped_bytes() const;

 private:
  void fill_initial(int32_t state);

  const Model& model_;
  std::vector<AlignedMemory> owned_;  // by state; null: read from the model
};

}  // namespace genesis
