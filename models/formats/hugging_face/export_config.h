// Writes the config.json of a model of the zoo: read_config() of config.h reads the same settings from it that the model was made
// with.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/formats/hugging_face/config.h"
#include "schema/graph/model.h"

namespace genesis::models::hugging_face {

// Returns the settings in the metadata of a model: all of its family, with their types. Throws Error for a model whose family has
// no form in transformers, or whose metadata is damaged.
FamilySettings settings_of(const Model& model);

// Returns the config.json to export. An imported model keeps its original config.json, except for settings that were changed
// since; any other model gets one that both versions 4 and 5 of transformers read. `made` is settings_of(model), `dtype` that of
// the weights. Throws Error naming every setting that a config.json cannot express.
nlohmann::json config_for_export(const Model& model, const FamilySettings& made, DType dtype);

}  // namespace genesis::models::hugging_face
