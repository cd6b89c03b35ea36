// What a config.json of transformers says of a model, as one of the zoo. Version 5 of transformers writes rope_theta into
// rope_parameters and dtype where version 4 wrote torch_dtype: both are read.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "models/zoo.h"

namespace genesis::models::hugging_face {

// model_type gpt2, llama, qwen2 or qwen3. Throws one Error, naming `path`, that lists everything of the configuration that
// changes what the model computes and is not supported, or is not what it should be.
ZooSettings read_config(const nlohmann::json& config, const std::filesystem::path& path);

}  // namespace genesis::models::hugging_face
