// The tokenizer that genesis-build's --tokenizer names, with the small files beside it, as what the new model brings.
#pragma once

#include <string>

#include "schema/graph/model.h"

namespace genesis::tools {

// `path` is a tokenizer.json, a folder with one or a model that brings one. Its files take the place of those that `model` has,
// whose chat template and generation_config.json stay where `path` has none. Throws Error where the tokenizer cannot be read or
// knows more tokens than the model.
void take_tokenizer(Model& model, const std::string& path);

}  // namespace genesis::tools
