// Reads a whole file as text or throws Error. A std::ifstream that runs out of memory or meets a failing disk would just stop, as
// if the file ended there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace genesis {

inline constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();

// Throws Error naming the path and the reason, for example that the file has more than `limit` bytes. Reads pipes to their end,
// too.
std::string read_whole_file(const std::filesystem::path& path, uint64_t limit = kAnySize);

// Reads a regular file. Use it for files in folders from outside: it refuses a pipe among them instead of waiting for it.
std::string read_regular_file(const std::filesystem::path& path, uint64_t limit = kAnySize);

}  // namespace genesis
