// NumPy's .npy files, versions 1 to 3: one dense, little-endian, C-ordered array each. Data for training and
// inputs of tools come in them. What is read is not trusted.
#pragma once

#include <filesystem>

#include "schema/core/tensor.h"

namespace genesis {

// A view into the mapped file (a copy where the file does not align its data). Throws Error naming the path.
Tensor read_npy(const std::filesystem::path& path);

// Atomic. NumPy has no bf16: throws Error for it.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

// The same from bytes in memory, which `owner` keeps alive.
Tensor read_npy_from(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);

}  // namespace genesis
