// The tokens of recently encoded words: most words of a text occur again soon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace genesis::text {

// Keeps one entry per hash value. Takes 4 MiB.
class WordCache {
 public:
  WordCache() : entries_(kEntries) {}

  struct Entry {  // a cache line
    uint8_t bytes = 0, count = 0;
    char word[30];
    uint32_t ids[8];
  };
  // Returns the entry for the word, which may hold another word; null if the word is too long.
  Entry* entry(std::string_view word);
  static bool holds(const Entry& entry, std::string_view word);
  // Does nothing if there are too many tokens.
  static void keep(Entry& entry, std::string_view word, const int64_t* ids, size_t count);

 private:
  static constexpr size_t kEntries = 1 << 16;
  std::vector<Entry> entries_;
};

}  // namespace genesis::text
