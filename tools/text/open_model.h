// A model by the name of its file, or of the folder that its training writes checkpoints to. Used by `genesis-run generate`,
// `chat`, `eval` and `export`.
#pragma once

#include <memory>
#include <string>

#include "schema/file/reader.h"

namespace genesis::tools {

// Of a folder its newest checkpoint. Throws Error naming the path; `options` are those of a file.
std::shared_ptr<const Model> open_model(const std::string& path, const LoadOptions& options = {});

}  // namespace genesis::tools
