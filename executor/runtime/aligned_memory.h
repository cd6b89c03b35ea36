// Page-aligned memory that is only touched when used, so a large arena or cache costs what it fills.
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

// Zeroed. Throws Error that says how many bytes were asked for. Large blocks ask for huge pages.
AlignedMemory allocate_memory(int64_t bytes);

}  // namespace genesis
