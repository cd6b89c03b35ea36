// Takes memory from the operating system before it is written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace genesis {

// Takes the pages of a range that is about to be written, in one call instead of a page fault each. Does nothing to small ranges,
// and where the system does not know the call.
void take_pages(std::byte* from, int64_t bytes);

}  // namespace genesis
