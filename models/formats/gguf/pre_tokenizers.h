// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre: they split text into words before byte-pair merges.
#pragma once

#include <string>
#include <vector>

#include "models/tokenizer/patterns.h"

namespace genesis::models::gguf {

struct PreTokenizer {
  text::Pattern pattern;
  bool whole_words_first = false;  // a word that is a token needs no merges
  bool begins_text = false;        // the BOS token precedes a text unless the file says otherwise
};

// Looks up a pre-tokenizer by its name in GGUF files; null if it is unknown.
const PreTokenizer* find_pre_tokenizer(const std::string& name);
std::vector<std::string> pre_tokenizer_names();

}  // namespace genesis::models::gguf
