// Builds the error message for a run that does not fit into the memory of its device. A Session checks this before it allocates
// anything.
#pragma once

#include <cstdint>
#include <string>

#include "schema/graph/plan.h"

namespace genesis {

// Counts the bytes that a run would still have to allocate.
struct MemoryNeed {
  int64_t arena = 0, states = 0, constants = 0;
  int64_t total() const { return arena + states + constants; }
};

// Throws Error that says how much is needed, how much is free, what would help, and which tensors form the peak.
[[noreturn]] void fail_too_little_memory(const std::string& device, const MemoryNeed& need,
                                         int64_t free_bytes, const Plan& plan);

// Returns the sizes that the user gave, for messages: " with batch=8, seq=256"; empty if there are none.
std::string sizes_text(const Bindings& bindings);

}  // namespace genesis
