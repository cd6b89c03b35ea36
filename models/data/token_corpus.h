// A corpus of text stored as tokens on disk. It is tokenized once on all cores, kept in a folder whose name is a hash of the
// corpus and the tokenizer, and mapped from then on.
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
  int64_t bytes = 0;      // size of the text
  int64_t bad_lines = 0;  // invalid lines that were skipped
  std::string first_repaired = {};  // place of the first byte that U+FFFD replaces; empty: none
  bool was_there = false;
  bool has_hashes = true;  // its shards have hashes; older versions of Genesis wrote none
};

// Opens the tokens of a corpus and tokenizes it if needed. `files` are text, or .jsonl with objects that have a "text". A changed
// file makes a new corpus, even if its size and modification time are unchanged. If the default cache folder is not writable,
// warns and keeps the tokens only while this process runs. Documents are held out by their position; if the share selects none,
// the last part of the text is held out. Throws Error for the first bad line (FILE:LINE), for a text without tokens, and for
// files that cannot be read or written. A half-written folder is never taken for a corpus.
TokenCorpus open_token_corpus(const std::vector<std::filesystem::path>& files, const TextTokens& tokens,
                              const CorpusOptions& options = {});

}  // namespace genesis::data
