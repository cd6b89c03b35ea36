// Byte-pair encoding of one word (Sennrich et al. 2016; over bytes as in GPT-2, or over characters): the adjacent pair whose
// merge has the lowest rank becomes one token, the leftmost first, until no pair can be merged.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/tokenizer/words/vocabulary.h"

namespace genesis::text {

struct Merge {
  uint32_t left, right, result;
};
inline uint64_t pair_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

struct BpeModel {
  std::vector<Merge> merges;  // in the order of their ranks
  bool whole_words_first =
      false;  // ignore_merges: a word that is a token becomes that token, whatever the merges give
  bool byte_fallback =
      false;  // an unknown character becomes "<0x41>" for each of its bytes, if all of these are tokens
  std::string unk_token;  // replaces any other unknown character; empty: it is dropped
  bool fuse_unk = false;  // adjacent characters that become `unk_token` become a single one
};

class Bpe {
 public:
  // With `is_byte_level`, words are bytes, which the vocabulary writes in the byte alphabet; else they are UTF-8.
  Bpe(const BpeModel& model, const Vocabulary& vocabulary, bool is_byte_level);

  // Appends the tokens of `word`. Throws Error if it needs `unk_token` and that is not in the vocabulary.
  void encode(std::string_view word, std::vector<int64_t>& ids) const;

 private:
  struct Rule {
    uint64_t pair = kNoPair;
    uint32_t rank = kNoRank, result = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  using Symbols = std::vector<uint32_t>;
  class SymbolWriter;

  Symbols symbols_of(std::string_view word) const;
  void merge_short(Symbols& symbols) const;
  void merge_long(Symbols& symbols) const;
  // Returns the slot of the pair, or the free slot for it.
  size_t slot_of(uint64_t pair) const;
  // Returns the rule of a pair; its rank is kNoRank if the pair is never merged.
  const Rule& rule(uint32_t left, uint32_t right) const;

  bool is_byte_level_, fuses_unknown_;
  std::string unknown_token_;
  int64_t unknown_ = -1;                 // its id
  std::array<int64_t, 256> id_of_byte_;  // by byte: id of its character; -1: none
  std::array<int64_t, 256> fallback_;    // by byte: id of its token "<0x41>"; -1: none, or not used
  std::unordered_map<uint32_t, uint32_t> id_of_code_;  // ids of characters, if words are UTF-8
  std::vector<Rule> rules_;                            // a hash map of pairs; at most half full
  Vocabulary whole_words_;                             // keyed by the bytes of the word
};

}  // namespace genesis::text
