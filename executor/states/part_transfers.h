// Values of states that a device keeps in parts (schema/graph/state_storage.h), on their way in and out: by all
// cores of the host, and in pieces that stay in a cache. Used by StateMemory and StateSnapshot.
#pragma once

#include "executor/runtime/device.h"
#include "schema/graph/state_storage.h"

namespace genesis {

// `count` values; null: zeros. Parts that are null are not written.
void upload_values(Device& device, const StateFormat& format, const StateFormat::Parts& to,
                   const std::byte* values, int64_t count);
Tensor read_values(Device& device, const StateFormat& format, const TensorType& type,
                   const StateFormat::Parts& from);
// Of parts on the host.
void decode_values(const StateFormat& format, const StateFormat::ConstParts& from, int64_t count,
                   std::byte* values);

}  // namespace genesis
