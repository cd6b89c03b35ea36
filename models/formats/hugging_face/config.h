// Reads a config.json of transformers as settings of a family. Version 5 of transformers writes dtype instead of version 4's
// torch_dtype: both are read.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "models/families.h"

namespace genesis::models::hugging_face {

// Throws one Error, naming `path`, that lists all entries that are invalid, or that change what the model computes in an
// unsupported manner. An entry that no table knows is such a one unless it is null, false, zero or empty. The error for an unknown
// model_type lists the known ones.
FamilySettings read_config(const nlohmann::json& config, const std::filesystem::path& path);

}  // namespace genesis::models::hugging_face
