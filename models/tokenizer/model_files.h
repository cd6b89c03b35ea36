// The tokenizer that travels inside a .genesis file, and the small files that come with it.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "models/tokenizer/tokenizer.h"
#include "schema/graph/model.h"

namespace genesis::text {

// Attaches those of tokenizer.json, tokenizer_config.json, chat_template.jinja, special_tokens_map.json and
// generation_config.json that are in `folder`, which may be the path of a tokenizer.json, too. They are not read here.
// A folder without tokenizer.json whose vocab.json and merges.txt are of a known kind has one made of them
// (vocabulary_files.h). Throws Error naming one that cannot be read or has more than 64 MiB.
void attach_tokenizer_files(Model& model, const std::filesystem::path& folder);

// Nothing when the model brings none. Throws Error that says what is wrong with the one it brings.
std::optional<Tokenizer> tokenizer_of(const Model& model);

// The token that stands between texts: <|endoftext|>, <|end_of_text|>, </s> or what tokenizer_config.json calls eos_token.
std::optional<int64_t> end_of_text_token(const Model& model, const Tokenizer& tokenizer);

// Tokens that end an answer: those that generation_config.json names, as in transformers; where it names none, those of the
// metadata "config.json", else eos_token of tokenizer_config.json.
std::vector<int64_t> end_tokens(const Model& model, const Tokenizer& tokenizer);

}  // namespace genesis::text
