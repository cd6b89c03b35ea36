// Names of temporary files and folders that later replace a target beside them: ".NAME.tmp-XXXX" becomes NAME.
#pragma once

#include <filesystem>
#include <string>

namespace genesis {

// Returns the folder that holds `path`; "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& path);

// Returns a fresh name in the same folder.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

// Returns the name of the target of a temporary name; empty for any other name.
std::string target_of_temporary(const std::string& name);

}  // namespace genesis
