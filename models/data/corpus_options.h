// Options for tokenizing a corpus of text (models/data/token_corpus.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "models/tokenizer/tokenizer.h"
#include "schema/messages/progress.h"

namespace genesis::data {

// Says how text is tokenized.
struct TextTokens {
  text::Tokenizer tokenizer;
  std::string identity;      // the bytes of the tokenizer's file
  int64_t end_of_text = -1;  // token appended to every document
};

struct CorpusOptions {
  double held_out = 0;    // share of the documents that are not trained on, 0 to below 1
  bool skip_bad = false;  // skip lines of .jsonl files that hold no document, instead of throwing Error
  std::filesystem::path cache = {};  // root folder; empty: $XDG_CACHE_HOME/genesis/tokens or ~/.cache/...
  OnProgress progress = {};          // reports "tokenizing" with bytes of text
};

}  // namespace genesis::data
