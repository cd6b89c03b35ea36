// Converts between text and the tokens of a language model: with a tokenizer, or as bytes if the vocabulary is bytes.
// Also has the tokens that end a text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/generation/generator.h"
#include "models/tokenizer/tokenizer.h"
#include "schema/graph/model.h"

namespace genesis::text {

class TextCodec {
 public:
  // `tokenizer`: a tokenizer.json, a folder or a .genesis file with one. If empty, the model's own tokenizer is used,
  // or bytes if it has none. Throws Error if the model, which was read from `file`, has another vocabulary.
  TextCodec(const Model& model, const std::string& file, const std::string& tokenizer);

  const std::optional<Tokenizer>& tokenizer() const { return tokenizer_; }  // empty: tokens are bytes
  std::vector<int64_t> encode(const std::string& text) const;
  // Returns the text of tokens, decoded like those of an answer.
  std::string decode(const std::vector<int64_t>& tokens) const;
  // For GeneratorOptions::text. The result may outlive this object.
  std::function<TokenText()> token_text() const;
  // Returns the tokens that end a text by the model's configuration; empty without one.
  const std::vector<int64_t>& end_tokens() const { return end_tokens_; }

 private:
  std::optional<Tokenizer> tokenizer_;
  std::vector<int64_t> end_tokens_;
};

}  // namespace genesis::text
