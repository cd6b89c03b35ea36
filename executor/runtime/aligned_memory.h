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

// Returns the bytes of a page, the unit in which the system gives memory and takes it back.
int64_t memory_page_bytes();
// Sets a range of such memory to zero, and gives the pages that lie inside of it back to the system: they take memory again from
// their next write on.
void clear_pages(std::byte* from, int64_t bytes);
// Lets the range take memory page by page from now on, never as huge pages.
void use_small_pages(std::byte* from, int64_t bytes);

}  // namespace genesis
