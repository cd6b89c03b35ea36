// Finds out if the ranks of a run share a folder, as ranks on hosts with a common file system do. Used by `genesis-run train`.
#pragma once

#include <filesystem>

#include "executor/distributed/world.h"

namespace genesis::tools {

// True if all ranks see what the first one makes beside `file`. All of them call it.
bool all_see_folder_of(const std::filesystem::path& file, World& world);

}  // namespace genesis::tools
