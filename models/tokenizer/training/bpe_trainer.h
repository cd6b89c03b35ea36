// Learns the merges of byte-pair encoding (Sennrich et al. 2016, over bytes as in GPT-2): repeatedly, the most frequent adjacent
// pair becomes one token. Merges and ids are those of BpeTrainer in the library `tokenizers` with the alphabet of bytes: of
// equally frequent pairs, the one with the lower ids is merged first.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "models/tokenizer/training/word_counts.h"

namespace genesis::text {

struct BpeOptions {
  int64_t vocab_size = 0;                   // limit of tokens, including special ones
  int64_t min_frequency = 0;                // minimum count of a pair that is merged
  std::vector<std::string> special_tokens;  // these get the first ids, in this order
};

struct LearnedBpe {
  std::vector<std::string> tokens;                    // by id, written in the byte alphabet (byte_alphabet.h)
  std::vector<std::pair<uint32_t, uint32_t>> merges;  // in the order of their ranks
};

// Calls `on_token(tokens, vocab_size)` after each merge. Throws Error if the special tokens and the 256 bytes exceed vocab_size.
// Returns fewer tokens if the words have no more pairs.
LearnedBpe train_bpe(const PartitionedWordCounts& words, const BpeOptions& options,
                     const std::function<void(int64_t, int64_t)>& on_token = {});

}  // namespace genesis::text
