// How a corpus of text becomes tokens (models/data/token_corpus.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "models/tokenizer/tokenizer.h"
#include "schema/messages/progress.h"

namespace genesis::data {

// How a text becomes tokens.
struct TextTokens {
  text::Tokenizer tokenizer;
  std::string identity;      // of the tokenizer: the bytes of its file
  int64_t end_of_text = -1;  // stands behind every document
};

struct CorpusOptions {
  double held_out = 0;    // share of the documents that are not trained on, 0 to below 1
  bool skip_bad = false;  // lines of .jsonl files that hold no document; else they are an Error
  std::filesystem::path cache =
      {};                    // where such folders are; empty: $XDG_CACHE_HOME/genesis/tokens or ~/.cache/...
  OnProgress progress = {};  // "tokenizing", bytes of text
};

}  // namespace genesis::data
