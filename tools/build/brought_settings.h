// Checks the settings that an imported model brings beside its tokenizer: generation_config.json,
// tokenizer_config.json and the chat template. Weights are useful without them, so a setting that cannot be used
// costs only a warning.
#pragma once

#include <string>

#include "schema/graph/model.h"

namespace genesis::tools {

// Removes from the model the files that later commands could not read. For each it warns where the file is wrong and
// what is lost with it. A generation_config.json that says which tokens end a text stays; only its unusable settings
// are removed. Also gives the warnings of generation_warnings(), and warns of a chat template that cannot be used.
// `source`: where the files came from, for messages.
void leave_out_broken_settings(Model& model, const std::string& source);

}  // namespace genesis::tools
