// Opens a model by the name of its file, or of the folder to which its training writes checkpoints.
#pragma once

#include <memory>
#include <string>

#include "schema/file/reader.h"

namespace genesis::tools {

// Text of --help for a model's name.
inline constexpr const char* kModelName = "a .genesis file, or a folder of checkpoints: its newest";
inline constexpr const char* kGeneratingModelName =
    "a .genesis file with entry points prefill and decode, or a folder of checkpoints: its newest";

// Returns the path of the file itself. For a folder that is its newest checkpoint whose bytes are all intact. Throws
// Error naming a folder that has none.
std::string model_file(const std::string& path);

// Loads the model. `options` apply to a file; a checkpoint in a folder is always verified completely. Throws Error
// naming the path.
std::unique_ptr<Model> open_model(const std::string& path, const LoadOptions& options = {});

}  // namespace genesis::tools
