// Reads the texts on which a model is evaluated: a text, lines of documents, or conversations.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::text {

// The texts that a command line names.
struct TextSource {
  std::string data;  // a text, or a .jsonl of documents or of conversations
  std::string
      tokenizer;  // a tokenizer.json, a folder or a model with one; empty: the model's own, or else bytes
  bool skip_bad = false;  // leaves out lines that hold no text
};

// Texts as tokens, with the tokens that count.
struct EvaluationTexts {
  std::vector<std::vector<int64_t>> tokens = {};  // at least two of each text
  std::vector<std::vector<bool>> counts = {};     // by text: the tokens that count; empty: all of them
  int64_t bytes = 0;                              // bytes of the predicted tokens that count
  bool are_bytes = false;                         // tokens are bytes, as there is no tokenizer

  int64_t longest() const;  // tokens of the longest text
  std::vector<bool> counts_of(size_t text) const {
    return counts.empty() ? std::vector<bool>() : counts[text];
  }
};

// Reads the texts for a model, which was read from `file`. Each line of a .jsonl is a text of its own, and of a
// conversation only the assistant's tokens count. Reads the first `most` tokens, all when not given. Warns of lines
// that are left out, and of added tokens that the model has no rows for. Throws Error if the tokenizer does not fit the
// model, if a token has no row, or if no text has two tokens.
EvaluationTexts read_evaluation_texts(const TextSource& source, const Model& model, const std::string& file,
                                      int64_t most = std::numeric_limits<int64_t>::max());

// Throws Error if the model, which was read from `file`, has no row for a token of the texts.
void check_tokens_fit(const EvaluationTexts& texts, const Model& model, const std::string& file);

}  // namespace genesis::text
