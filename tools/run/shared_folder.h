// Finds out if the ranks of a run share a folder, as ranks on hosts with a common file system do.
#pragma once

#include <filesystem>

#include "executor/distributed/world.h"

namespace genesis::tools {

// Returns true if all ranks see a file that the first one makes beside `file`. All ranks call it.
bool all_see_folder_of(const std::filesystem::path& file, World& world);

}  // namespace genesis::tools
