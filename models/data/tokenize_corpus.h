// Tokenizes text files on all cores, and writes the tokens in the order of the files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/data/corpus_options.h"
#include "models/data/token_shards.h"

namespace genesis::data {

struct TokenizedText {
  int64_t bytes = 0, bad_lines = 0;
  std::string first_repaired = {};  // place of the first byte that is not UTF-8; empty: none
};

TokenizedText tokenize_files(const std::vector<std::filesystem::path>& files, const TextTokens& tokens,
                             const CorpusOptions& options, ShardWriter& training, ShardWriter& held_out);

}  // namespace genesis::data
