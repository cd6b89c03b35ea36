// Learns the merges of byte-pair encoding (Sennrich et al. 2016, over bytes as in GPT-2): again and again, the pair of
// neighbours that is the most frequent becomes one token. Merges and ids are those that BpeTrainer of the library
// `tokenizers` gives with the alphabet of bytes: of pairs equally frequent, the one with the lower ids is taken.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "models/tokenizer/training/word_counts.h"

namespace genesis::text {

struct BpeOptions {
  int64_t vocab_size = 0;                   // tokens at most, special ones among them
  int64_t min_frequency = 0;                // of a pair that becomes a token
  std::vector<std::string> special_tokens;  // have the first ids, in this order
};

struct LearnedBpe {
  std::vector<std::string> tokens;                    // by id, as files write them (byte_alphabet.h)
  std::vector<std::pair<uint32_t, uint32_t>> merges;  // in the order of their ranks
};

// `on_token(tokens, of)` hears how many tokens there are by now. Throws Error where the special tokens and the 256 bytes
// are more than vocab_size. Gives fewer tokens where the words have no more pairs.
LearnedBpe train_bpe(const PartedWordCounts& words, const BpeOptions& options,
                     const std::function<void(int64_t, int64_t)>& on_token = {});

}  // namespace genesis::text
