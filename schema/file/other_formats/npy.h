// NumPy's .npy files, versions 1 to 3: one dense, little-endian, C-ordered array each. They hold training data and inputs of
// tools. The file is not trusted.
#pragma once

#include <filesystem>

#include "schema/core/tensor.h"

namespace genesis {

// Returns a view into the mapped file (a copy if the file does not align its data). Throws Error naming the path.
Tensor read_npy(const std::filesystem::path& path);

// Writes atomically. Throws Error for bf16, which NumPy lacks.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

// The same as read_npy() for bytes in memory, which `owner` keeps alive.
Tensor read_npy_from(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);

}  // namespace genesis
