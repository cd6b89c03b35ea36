#include "models/tokenizer/words/word_cache.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "models/tokenizer/words/word_hash.h"

namespace genesis::text {

WordCache::Entry* WordCache::entry(std::string_view word) {
  return word.size() > sizeof Entry::word ? nullptr : &entries_[hash_of_word(word) % kEntries];
}

bool WordCache::holds(const Entry& entry, std::string_view word) {
  return entry.bytes == word.size() && std::memcmp(entry.word, word.data(), word.size()) == 0;
}

void WordCache::keep(Entry& entry, std::string_view word, const int64_t* ids, size_t count) {
  if (count > std::size(entry.ids)) return;
  entry.bytes = static_cast<uint8_t>(word.size());
  entry.count = static_cast<uint8_t>(count);
  std::memcpy(entry.word, word.data(), word.size());
  std::copy_n(ids, count, entry.ids);
}

}  // namespace genesis::text
