// An f32 state on the host, kept as halves (schema/core/halves.h) by a device: one way and the other. Used by
// StateMemory; nothing else of the host knows of halves.
#pragma once

#include "executor/runtime/device.h"

namespace genesis {

// Where halves lie; a half that is null is not written.
struct HalvesMemory {
  std::byte *upper = nullptr, *lower = nullptr;
};

// `count` numbers; null: zeros.
void upload_halves(Device& device, const HalvesMemory& to, const std::byte* numbers, int64_t count);
Tensor read_halves(Device& device, const TensorType& type, const HalvesMemory& from);
// Of halves on the host.
void join_halves(std::byte* to, const std::byte* upper, const std::byte* lower, int64_t count);

}  // namespace genesis
