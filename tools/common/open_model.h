// A model by the name of its file, or of the folder that its training writes checkpoints to. Used by every command that reads
// a model.
#pragma once

#include <memory>
#include <string>

#include "schema/file/reader.h"

namespace genesis::tools {

// What --help says of such a name.
inline constexpr const char* kModelName = "a .genesis file, or a folder of checkpoints: its newest";
inline constexpr const char* kGeneratingModelName =
    "a .genesis file with entry points prefill and decode, or a folder of checkpoints: its newest";

// The file itself: of a folder its newest checkpoint, of which every byte is intact. Throws Error naming a folder that has none.
std::string model_file(const std::string& path);

// Loads that file; `options` are those of a file; a checkpoint in a folder is verified as a whole. Throws Error naming the path.
std::unique_ptr<Model> open_model(const std::string& path, const LoadOptions& options = {});

}  // namespace genesis::tools
