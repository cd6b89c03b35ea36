// Byte-pair encoding of one word (Sennrich et al. 2016, over bytes as in GPT-2 or over characters): the neighbours whose merge has the lowest
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

struct BpeModel {
  Vocabulary vocabulary;
  std::vector<Merge> merges;  // in the order of their ranks
  bool whole_words_first =
      false;  // ignore_merges: a word that is a token is that token, whatever the merges lead to
  bool byte_fallback =
      false;  // a character that is no token becomes "<0x41>" for each of its bytes, if all are tokens
  std::string unk_token;  // what it becomes otherwise; empty: it is left out
  bool fuse_unk = false;  // neighbours that become `unk_token` are one token
};

class Bpe {
 public:
  // Words are bytes, which are characters of the byte alphabet in the vocabulary (`is_byte_level`), or UTF-8.
  Bpe(const BpeModel& model, bool is_byte_level);

  // Appends the tokens of `word`. Throws Error where it needs `unk_token`, and the vocabulary does not have it.
  void encode(std::string_view word, WordCache& cache, std::vector<int64_t>& ids) const;

 private:
  struct Rule {
    uint64_t pair = kNoPair;
    uint32_t rank = kNoRank, result = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  using Symbols = std::vector<uint32_t>;
  class SymbolWriter;

  void encode_new(std::string_view word, std::vector<int64_t>& ids) const;
  Symbols symbols_of(std::string_view word) const;
  void merge_short(Symbols& symbols) const;
  void merge_long(Symbols& symbols) const;
  // Where the pair is, or would be.
  size_t slot_of(uint64_t pair) const;
  // One of rank kNoRank where the two are not merged.
  const Rule& rule(uint32_t left, uint32_t right) const;

  bool is_byte_level_, fuses_unknown_;
  std::string unknown_token_;
  int64_t unknown_ = -1;                 // its id
  std::array<int64_t, 256> id_of_byte_;  // of the byte, or of the character that stands for it
  std::array<int64_t, 256> fallback_;    // of "<0x41>"; -1: there is none, or it is not asked for
  std::unordered_map<uint32_t, uint32_t> id_of_code_;  // of characters, where words are UTF-8
  std::vector<Rule> rules_;                            // a hash map of pairs; at most half of it is filled
  Vocabulary whole_words_;                             // by their bytes
};

}  // namespace genesis::text
