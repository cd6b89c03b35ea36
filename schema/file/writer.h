// Writes a model as a .genesis file (docs/file-format.md). Equal models give equal bytes.
#pragma once

#include <filesystem>

#include "schema/file/save_options.h"
#include "schema/graph/model.h"

namespace genesis {

// Writes atomically: on any error an existing file stays unchanged and nothing is left beside it. Throws Error naming the path
// and the reason. A state without an initial tensor takes no space.
void save_model(const Model& model, const std::filesystem::path& path, const SaveOptions& options = {});

}  // namespace genesis
