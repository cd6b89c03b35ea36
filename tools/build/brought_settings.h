// The settings that an imported model brings beside its tokenizer: generation_config.json, tokenizer_config.json and the chat
// template. Weights are of use without them, so those that cannot be used cost a warning. Used by genesis-build.
#pragma once

#include <string>

#include "schema/graph/model.h"

namespace genesis::tools {

// Takes files away that later commands could not read, and tells of each where it is wrong and what is lost with it; of a
// generation_config.json that says which tokens end a text, the settings alone that cannot be used. Tells of
// settings of generation (generation_warnings()) and of a chat template that cannot be used. `source`: where they came from, for messages.
void leave_out_broken_settings(Model& model, const std::string& source);

}  // namespace genesis::tools
