// What a tool needs to talk with a language model in text: its tokenizer, or bytes where the vocabulary is theirs, and
// the tokens that end a text. Used by `genesis-run generate` and `chat`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/text/generator.h"
#include "models/tokenizer/tokenizer.h"
#include "schema/graph/model.h"

namespace genesis::tools {

class TextCodec {
 public:
  // `tokenizer`: a tokenizer.json, a folder or a .genesis file with one; empty: the one that the model brings, and where it
  // brings none, tokens are bytes. Throws Error where the model, which
  // was read from `file`, has another vocabulary.
  TextCodec(const Model& model, const std::string& file, const std::string& tokenizer);

  const std::optional<text::Tokenizer>& tokenizer() const { return tokenizer_; }  // empty: bytes
  std::vector<int64_t> encode(const std::string& text) const;
  // For GeneratorOptions::text; outlives this.
  std::function<text::TokenText()> token_text() const;
  // Of the model's end of text, where a configuration came with it.
  const std::vector<int64_t>& end_tokens() const { return end_tokens_; }

 private:
  std::optional<text::Tokenizer> tokenizer_;
  std::vector<int64_t> end_tokens_;
};

}  // namespace genesis::tools
