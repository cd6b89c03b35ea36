// Remembers which model files this process knows to be intact to the last byte: it wrote them, or has read and verified them, and
// they have not changed since. Verifying reads a whole file, which takes seconds for a large one. This keeps a damaged checkpoint
// from replacing a good one. Thread-safe.
#pragma once

#include <filesystem>
#include <string>

namespace genesis {

// Call it after the file has been written completely, or loaded with every byte verified.
void remember_intact(const std::filesystem::path& path);

// Returns true if the file is known to be intact, without reading it.
bool is_known_intact(const std::filesystem::path& path);

// Returns why the file is damaged; empty: it is intact.
std::string why_damaged(const std::filesystem::path& path);

}  // namespace genesis
