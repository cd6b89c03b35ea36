// Creates a tensor from bytes of a file format: checks their length and their bools, and copies them only if they are not
// aligned for their type.
#pragma once

#include "schema/core/tensor.h"

namespace genesis {

// `type` has known sizes, none negative. Throws Error if the number of bytes does not match the type.
Tensor tensor_from_bytes(const TensorType& type, std::shared_ptr<const void> owner,
                         std::span<const std::byte> bytes);

// Throws Error if a bool has a byte other than 0 and 1, which C++ does not allow. Reads nothing for other dtypes.
void check_bools(DType dtype, std::span<const std::byte> bytes);

}  // namespace genesis
