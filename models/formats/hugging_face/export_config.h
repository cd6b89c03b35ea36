// Writes the config.json of a model of the zoo: read_config() of config.h reads the same settings from it that the model was made
// with.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/formats/hugging_face/config.h"
#include "schema/graph/model.h"

namespace genesis::models::hugging_face {

// Returns the settings in the metadata of a model, completed with defaults. Throws Error for a model that is not a gpt2, llama,
// qwen2 or qwen3.
ZooSettings zoo_settings(const Model& model);

// Returns the config.json to export. An imported model keeps its original config.json, except for settings that were changed
// since; any other model gets one that both versions 4 and 5 of transformers read. `zoo` is zoo_settings(model), `dtype` that of
// the weights. Throws Error naming every setting that a config.json cannot express.
nlohmann::json config_for_export(const Model& model, const ZooSettings& zoo, DType dtype);

}  // namespace genesis::models::hugging_face
