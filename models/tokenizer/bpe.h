// Byte-pair encoding of one word (Sennrich et al. 2016, over bytes as in GPT-2): the neighbours whose merge has the lowest
// rank become one token, the leftmost first, until there are none.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace genesis::text {

struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};
// What tokens are written as in the file -> their ids.
using Vocabulary = std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>>;

struct Merge {
  uint32_t left, right, result;
};
inline uint64_t pair_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

// Words that were encoded lately and their tokens: one place for a word, by its hash. Takes 4 MiB.
class WordCache {
 public:
  WordCache() : entries_(kEntries) {}

  struct Entry {  // a cache line
    uint8_t bytes = 0, count = 0;
    char word[30];
    uint32_t ids[8];
  };
  // Where the word is, or would be; nothing for one that is too long.
  Entry* entry(std::string_view word);
  static bool holds(const Entry& entry, std::string_view word);
  // Does nothing where there are too many tokens.
  static void keep(Entry& entry, std::string_view word, const int64_t* ids, size_t count);

 private:
  static constexpr size_t kEntries = 1 << 16;
  std::vector<Entry> entries_;
};

class Bpe {
 public:
  // `merges` in the order of their ranks. With `whole_words_first` (ignore_merges in the file), a word that is a token is
  // that token, whatever the merges lead to.
  Bpe(const Vocabulary& vocabulary, const std::vector<Merge>& merges, bool whole_words_first);

  // Appends the tokens of `word`. Bytes that are no token of the vocabulary are left out.
  void encode(std::string_view word, WordCache& cache, std::vector<int64_t>& ids) const;

 private:
  struct Rule {
    uint64_t pair = kNoPair;
    uint32_t rank = kNoRank, result = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  void encode_new(std::string_view word, std::vector<int64_t>& ids) const;
  void merge_short(std::vector<uint32_t>& symbols) const;
  void merge_long(std::vector<uint32_t>& symbols) const;
  // Where the pair is, or would be.
  size_t slot_of(uint64_t pair) const;
  // One of rank kNoRank where the two are not merged.
  const Rule& rule(uint32_t left, uint32_t right) const;

  std::array<int64_t, 256> id_of_byte_;
  std::vector<Rule> rules_;  // a hash map of pairs; at most half of it is filled
  Vocabulary whole_words_;   // by their bytes
};

}  // namespace genesis::text
