// The config.json of a model of the zoo, the other way round than config.h: what read_config() reads from it are the
// settings that the model was made with.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/hugging_face/config.h"
#include "schema/graph/model.h"

namespace genesis::models::hugging_face {

// What the metadata of a model say it was made of, every setting of the zoo among them. Throws Error for a model that is
// not one of gpt2, llama, qwen2 and qwen3.
ZooSettings zoo_settings(const Model& model);

// An imported model keeps the config.json that it came with, but for what was changed since; any other gets one in the
// words that versions 4 and 5 of transformers both read. `zoo` is zoo_settings(model), `dtype` that of the weights. Throws
// Error naming every setting that a config.json does not say.
nlohmann::json config_for_export(const Model& model, const ZooSettings& zoo, DType dtype);

}  // namespace genesis::models::hugging_face
