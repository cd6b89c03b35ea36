// Page-aligned memory that the system commits on first touch, so a large arena or cache only costs what it fills.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace genesis {

struct UnmapMemory {
  size_t bytes = 0;
  void operator()(std::byte* p) const;
};
using AlignedMemory = std::unique_ptr<std::byte[], UnmapMemory>;

// Returns zeroed memory, with huge pages for large blocks if possible. Throws Error that says how many bytes were requested.
AlignedMemory allocate_memory(int64_t bytes);

}  // namespace genesis
