// A corpus of text as tokens on the disk: made once by all cores, kept in a folder whose name is a hash of the corpus and the
// tokenizer, and mapped from then on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/data/corpus_options.h"
#include "models/data/token_shards.h"

namespace genesis::data {

struct TokenCorpus {
  TokenStream training, held_out;
  std::filesystem::path folder;
  int64_t bytes = 0;      // of text
  int64_t bad_lines = 0;  // that were left out
  std::string first_repaired = {};  // where the first byte is that U+FFFD stands for; empty: nowhere
  bool was_there = false;
  bool has_hashes = true;  // of its tokens; an older version of Genesis wrote none
};

// `files` are text, or .jsonl with objects that have a "text". A file that was changed makes another corpus, also
// where its size and its time of change are what they had been. Where the usual folder of caches cannot be written, a warning
// says so, and the tokens are kept for the process alone. Documents are held out by their place; where the share of
// none falls on one, the last part is. Throws Error for the first bad line (FILE:LINE), for a text without tokens, and for
// what cannot be read or written; nothing half-written is ever taken for a corpus.
TokenCorpus open_token_corpus(const std::vector<std::filesystem::path>& files, const TextTokens& tokens,
                              const CorpusOptions& options = {});

}  // namespace genesis::data
