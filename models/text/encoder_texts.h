// Texts for a model that reads whole texts at once and many of them at a time: their tokens, and runs of an entry point over
// batches of them. Used by Embedder and CrossEncoder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "executor/session.h"
#include "models/tokenizer/text_template.h"
#include "models/tokenizer/tokenizer.h"

namespace genesis::text {

// Called for each text that is longer than the model can read, with its number and its tokens without and with truncation.
using OnTruncated = std::function<void(size_t text, int64_t tokens, int64_t read)>;

class EncoderTexts {
 public:
  // Takes the tokenizer that the model brings, or bytes as tokens if it has 256 and brings none. `file` is the model's, for messages.
  // Throws Error if there is no tokenizer, or if it is another model's.
  EncoderTexts(const Model& model, const std::string& file);

  // Returns the number of tokens of the longest text, with those that the tokenizer adds: what sentence_bert_config.json says, or
  // else tokenizer_config.json, as far as the model's positions go. 0: no limit is known.
  int64_t longest() const { return longest_; }
  // These return a text, or a pair of texts, as the model reads it, truncated to longest(). Throw Error as Tokenizer::encode() does,
  // for a tokenizer that does not say how pairs are encoded, and for a token that the model has no row for.
  EncodedTexts encode(const std::string& text) const;
  EncodedTexts encode(const std::string& first, const std::string& second) const;
  // Returns the number of tokens with which texts begin that begin with `prompt`.
  int64_t tokens_of_prompt(const std::string& prompt) const;

 private:
  EncodedTexts checked(EncodedTexts encoded) const;

  std::optional<Tokenizer> tokenizer_;
  TextTemplates templates_;
  int64_t vocabulary_, longest_;
};

struct BatchOptions {
  int64_t batch = 32;          // texts of a run at most
  int64_t longest = 0;         // tokens of a text; 0: no limit
  int64_t prompt_lengths = 0;  // for the input of this name
};

// Runs an entry point of the model, whose inputs are those of `hidden` (models/encoder.h) or `embed` (models/vectors.h), over all
// texts, and returns the rows of its output [batch, features] in their order: f32[texts, features]. Texts of similar lengths share a
// run; lengths are padded to a few sizes, because each needs a plan of its own.
Tensor run_in_batches(Session& session, const std::string& entry, const std::string& output,
                      const std::vector<EncodedTexts>& texts, const BatchOptions& options);

}  // namespace genesis::text
