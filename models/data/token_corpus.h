// A corpus of text as tokens on the disk: made once by all cores, kept in a folder whose name is a hash of the corpus and the
// tokenizer, and mapped from then on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/data/token_shards.h"
#include "models/tokenizer/tokenizer.h"
#include "schema/core/progress.h"

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

struct TokenCorpus {
  TokenStream training, held_out;
  std::filesystem::path folder;
  int64_t bytes = 0;      // of text
  int64_t bad_lines = 0;  // that were left out
  std::string first_repaired = {};  // where the first byte is that U+FFFD stands for; empty: nowhere
  bool was_there = false;
};

// `files` are text, or .jsonl with objects that have a "text". A file that was changed makes another corpus, also
// where its size and its time of change are what they had been. Documents are held out by their place; where the share of
// none falls on one, the last part is. Throws Error for the first bad line (FILE:LINE), for a text without tokens, and for
// what cannot be read or written; nothing half-written is ever taken for a corpus.
TokenCorpus open_token_corpus(const std::vector<std::filesystem::path>& files, const TextTokens& tokens,
                              const CorpusOptions& options = {});

}  // namespace genesis::data
