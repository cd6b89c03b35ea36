// Loads the tokenizer named on a command line: a tokenizer.json, a folder with one or with the older files from which one is made
// (models/tokenizer/vocabulary_files.h), or a model that brings one.
#pragma once

#include <optional>
#include <string>

#include "models/chat/json_config.h"
#include "models/tokenizer/tokenizer.h"
#include "schema/graph/model.h"

namespace genesis::text {

struct NamedTokenizer {
  Tokenizer tokenizer;
  int64_t ids;  // number of token ids: a model may have more than its tokenizer has tokens
};
NamedTokenizer load_named_tokenizer(const std::string& path);
Tokenizer load_tokenizer(const std::string& path);

// Loads the tokenizer that `path` names. If `path` is empty, loads the model's own tokenizer, if there is one.
// `file`: the model's name, for messages.
std::optional<Tokenizer> load_tokenizer(const std::string& path, const Model& model, const std::string& file);

// Does the same for a model of `vocabulary` tokens. Warns of added tokens that it has no rows for. Throws Error if it has
// no rows for ordinary tokens (token_rows.h), or if there is no tokenizer and its tokens are not the 256 bytes.
std::optional<Tokenizer> load_fitting_tokenizer(const std::string& path, const Model& model,
                                                const std::string& file, int64_t vocabulary);

// Loads the model's own tokenizer, if there is one. Call it before anything is prepared with the tokenizer. Warns of
// added tokens that the entry point `forward` has no rows for. Throws Error if the tokenizer cannot be used, or if
// `forward` has no rows for ordinary tokens (token_rows.h).
std::optional<Tokenizer> brought_tokenizer(const Model& model, const std::string& file);

// Returns the settings beside the tokenizer: in the folder `path`, beside the file `path`, or of the model `path`. If
// `path` is empty, they are those of `model`, which was read from `file` and must outlive the result.
chat::ConfigFiles config_files(const std::string& path, const Model& model, const std::string& file);

}  // namespace genesis::text
