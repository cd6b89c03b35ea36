// Whether a file is a model: asked before another is written in its place.
#pragma once

#include <filesystem>

namespace genesis {

// Whether a file is there that begins as .genesis files do, be it damaged or newer than the reader.
bool is_model_file(const std::filesystem::path& path);

}  // namespace genesis
