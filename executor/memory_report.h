// What a session says of a run that does not fit into the memory of its device. Used by executor/session
// before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "schema/graph/plan.h"

namespace genesis {

// Bytes that a run would still have to allocate.
struct MemoryNeed {
  int64_t arena = 0, states = 0, constants = 0;
  int64_t total() const { return arena + states + constants; }
};

// Throws Error: what is needed, what is free, what would help, and which tensors are the peak.
[[noreturn]] void fail_too_little_memory(const std::string& device, const MemoryNeed& need,
                                         int64_t free_bytes, const Plan& plan);

// " with batch=8, seq=256": messages about sizes name them, since they are what the user gave. Empty where there are none.
std::string sizes_text(const Bindings& bindings);

}  // namespace genesis
