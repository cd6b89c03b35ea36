// Tells from the first bytes of a file whether it is a model.
#pragma once

#include <filesystem>

namespace genesis {

// Returns true if a file exists and begins like a .genesis file, even if it is damaged or newer than this reader.
bool is_model_file(const std::filesystem::path& path);

}  // namespace genesis
