// Text files into rows of tokens, by all cores and in the order of the files. Used by token_corpus.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/data/corpus_options.h"
#include "models/data/token_shards.h"

namespace genesis::data {

struct TokenizedText {
  int64_t bytes = 0, bad_lines = 0;
  std::string first_repaired = {};  // where the first byte is that is no UTF-8; empty: nowhere
};

TokenizedText tokenize_files(const std::vector<std::filesystem::path>& files, const TextTokens& tokens,
                             const CorpusOptions& options, ShardWriter& training, ShardWriter& held_out);

}  // namespace genesis::data
