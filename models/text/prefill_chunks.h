// How a prompt is cut into runs whose sizes are powers of two, so that prompts of all lengths share a few plans. A run
// may be longer than what is left to read: the positions behind are filled with any token, and nobody reads them before
// they are written again. Used by models/text/generator.cpp.
#pragma once

#include <cstdint>

namespace genesis::text {

// The size of the next run, a power of two of at most `most`. `unread` tokens, 1 or more, are left, and the cache
// has `room` for that many or more.
int64_t next_chunk(int64_t unread, int64_t room, int64_t most);

}  // namespace genesis::text
