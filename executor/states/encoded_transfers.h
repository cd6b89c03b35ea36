// Transfers values of states that a device stores in parts (schema/graph/state_storage.h). Encoding and decoding use all cores of
// the host, in chunks that stay in a cache.
#pragma once

#include "executor/runtime/device.h"
#include "schema/graph/state_storage.h"

namespace genesis {

// Encodes and uploads `count` values; null: zeros. Parts that are null are not written.
void upload_values(Device& device, const StateFormat& format, const StateFormat::Parts& to,
                   const std::byte* values, int64_t count);
Tensor read_values(Device& device, const StateFormat& format, const TensorType& type,
                   const StateFormat::Parts& from);
// Decodes parts that are on the host.
void decode_values(const StateFormat& format, const StateFormat::ConstParts& from, int64_t count,
                   std::byte* values);

}  // namespace genesis
