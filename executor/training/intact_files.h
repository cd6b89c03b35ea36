// Which model files this process knows to be intact to the last byte: it wrote them, or has read and checked
// them, and they have not changed since. Checking reads a whole file, which for a large one takes seconds.
// Used by checkpoint.cpp, so that a damaged checkpoint never pushes out a good one. Safe to use from any
// thread.
#pragma once

#include <filesystem>
#include <string>

namespace genesis {

// The file has just been written as a whole, or loaded with every byte checked.
void remember_intact(const std::filesystem::path& path);

// Whether it is known to be intact, without reading it.
bool is_known_intact(const std::filesystem::path& path);

// Why the file is damaged; empty: it is not.
std::string why_damaged(const std::filesystem::path& path);

}  // namespace genesis
