// The language model inside of a model that also reads images. Its config.json has the language model's as text_config, and its
// tensors have longer names. Without images such a model computes what the language model alone does.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace genesis::models::hugging_face {

// Returns the config.json of the language model alone; any other config.json as it is. A rotation with sections for time, height and
// width (mrope) becomes a plain one, because these are equal in a text.
nlohmann::json text_part(const nlohmann::json& config);

// Returns the name that a tensor of the language model has alone: "model.norm.weight" for "model.language_model.norm.weight".
std::string text_name(const std::string& name);

}  // namespace genesis::models::hugging_face
