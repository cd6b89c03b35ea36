// The tokenizer that a command line names: a tokenizer.json, a folder with one, or a model that brings one.
#pragma once

#include <optional>
#include <string>

#include "models/chat/json_config.h"
#include "models/tokenizer/tokenizer.h"
#include "schema/graph/model.h"

namespace genesis::tools {

// Whether the path is that of a model: a .genesis file, or a folder of checkpoints.
bool names_model(const std::string& path);

struct NamedTokenizer {
  text::Tokenizer tokenizer;
  int64_t ids;  // how many there are: a model may give more than the tokenizer that it brings has tokens
};
NamedTokenizer load_named_tokenizer(const std::string& path);
text::Tokenizer load_tokenizer(const std::string& path);

// The one that `path` names; where that is empty, the one that the model brings, if it does. `file`: the model's, for messages.
std::optional<text::Tokenizer> load_tokenizer(const std::string& path, const Model& model,
                                              const std::string& file);

// The one that the model brings, if it does, before anything is made ready with it. Warns of added tokens that the entry point
// `forward` has no rows for. Throws Error where it cannot be used, also because ordinary tokens have none (token_rows.h).
std::optional<text::Tokenizer> brought_tokenizer(const Model& model, const std::string& file);

// The settings beside it: those in the folder `path`, beside the file `path` or of the model `path`; where that is empty, of
// `model`, which was read from `file` and outlives them.
chat::ConfigFiles config_files(const std::string& path, const Model& model, const std::string& file);

}  // namespace genesis::tools
