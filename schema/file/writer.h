// Writes a model as a .genesis file (docs/file-format.md). The same model gives the same bytes.
#pragma once

#include <filesystem>

#include "schema/file/save_options.h"
#include "schema/graph/model.h"

namespace genesis {

// Atomic: on any error the file that was there is untouched and nothing is left beside it. Throws Error
// naming the path and the reason. A state without an initial tensor takes no space.
void save_model(const Model& model, const std::filesystem::path& path, const SaveOptions& options = {});

}  // namespace genesis
