// Reads a config.json of transformers as settings of a model of the zoo. Version 5 of transformers writes rope_theta into
// rope_parameters, and dtype instead of version 4's torch_dtype: both are read.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "models/zoo.h"

namespace genesis::models::hugging_face {

// Accepts the model_type gpt2, llama, qwen2 and qwen3. Throws one Error, naming `path`, that lists all settings that are invalid,
// or that change what the model computes in an unsupported manner.
ZooSettings read_config(const nlohmann::json& config, const std::filesystem::path& path);

}  // namespace genesis::models::hugging_face
