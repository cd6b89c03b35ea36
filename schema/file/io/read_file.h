// A whole file as text, or an Error: a stream that runs out of memory or meets a failing disk stops where it
// is and looks as if the file ended there. Used wherever a file is read that is not mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace genesis {

inline constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();

// Throws Error naming the path and the reason, which may be that there are more than `limit` bytes. Reads pipes to their end, too.
std::string read_whole_file(const std::filesystem::path& path, uint64_t limit = kAnySize);

// Of a regular file, as those in a folder that somebody else made have to be: a pipe among them is refused instead of
// waited for.
std::string read_regular_file(const std::filesystem::path& path, uint64_t limit = kAnySize);

}  // namespace genesis
