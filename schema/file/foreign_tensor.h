// One tensor from bytes in someone else's format: checks its length and its bools, and copies only where the
// bytes are not aligned for their type. Used by the readers of .npy and .safetensors.
#pragma once

#include "schema/core/tensor.h"

namespace genesis {

// `type` has known sizes, none negative. Throws Error when the bytes are not exactly those of the type.
Tensor foreign_tensor(const TensorType& type, std::shared_ptr<const void> owner,
                      std::span<const std::byte> bytes);

// Any byte but 0 and 1 is no bool to C++. Throws Error; for other dtypes nothing is read.
void check_bools(DType dtype, std::span<const std::byte> bytes);

}  // namespace genesis
