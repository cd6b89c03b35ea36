// Names of what is written beside a file or a folder before it takes its place: ".NAME.tmp-XXXX" becomes NAME. Used by
// atomic_write.cpp and atomic_folder.cpp.
#pragma once

#include <filesystem>
#include <string>

namespace genesis {

// The folder that holds `path`; "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& path);

// A fresh name in the same folder.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

// The name that a temporary one was to become; empty for any other name.
std::string target_of_temporary(const std::string& name);

}  // namespace genesis
