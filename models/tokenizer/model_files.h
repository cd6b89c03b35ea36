// The tokenizer inside of a .genesis file, and the small files that come with it.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "models/tokenizer/tokenizer.h"
#include "schema/graph/model.h"

namespace genesis::text {

// Attaches the files tokenizer.json, tokenizer_config.json, chat_template.jinja, special_tokens_map.json and
// generation_config.json that are in `folder`, without parsing them. `folder` may also be the path of a tokenizer.json. If a
// folder has no tokenizer.json, but vocab.json and merges.txt of a known kind, or tokenizer.model, one is made of these
// (vocabulary_files.h); a tokenizer.model that cannot be read causes a warning. Throws Error naming another file that cannot be
// read or has more than 64 MiB.
void attach_tokenizer_files(Model& model, const std::filesystem::path& folder);

// Returns nothing if the model has no tokenizer. Throws Error if its tokenizer is invalid.
std::optional<Tokenizer> tokenizer_of(const Model& model);

// Returns the token that separates texts: <|endoftext|>, <|end_of_text|>, </s> or eos_token of tokenizer_config.json.
std::optional<int64_t> end_of_text_token(const Model& model, const Tokenizer& tokenizer);

// Returns the tokens that end an answer: those of generation_config.json, as in transformers; if it has none, those of the
// metadata "config.json", else eos_token of tokenizer_config.json.
std::vector<int64_t> end_tokens(const Model& model, const Tokenizer& tokenizer);

}  // namespace genesis::text
