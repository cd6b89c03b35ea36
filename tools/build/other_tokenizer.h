// Gives a new model the tokenizer named by --tokenizer of genesis-build, with the small files beside it.
#pragma once

#include <string>

#include "schema/graph/model.h"

namespace genesis::tools {

// `path` is a tokenizer.json, a folder with one, or a model that brings one. Its files replace those of `model`. The
// model keeps its own chat template and generation_config.json if `path` has none. Throws Error if the tokenizer
// cannot be read or knows more tokens than the model.
void take_tokenizer(Model& model, const std::string& path);

}  // namespace genesis::tools
