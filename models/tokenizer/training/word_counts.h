// Counts how often each word occurs in a text, which is the input of BPE training.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace genesis::text {

// A hash map of words that only grows. Words are in the order of their first occurrence.
class WordCounts {
 public:
  // Adds `count` occurrences of a word. `hash` is hash_of_word(word). Throws Error for a word of 4 GiB.
  void add(std::string_view word, uint64_t hash, int64_t count);

  size_t size() const { return entries_.size(); }

  template <class Visit>
  void for_each(const Visit& visit) const {  // visit(word, hash, count)
    for (const Entry& entry : entries_) visit(word_of(entry), entry.hash, entry.count);
  }

 private:
  struct Entry {
    uint64_t hash, begin;
    uint32_t bytes;
    int64_t count;
  };
  struct Slot {
    uint32_t tag = 0, entry = kEmpty;  // upper half of the hash; index in entries_
  };
  static constexpr uint32_t kEmpty = ~uint32_t{0};

  std::string_view word_of(const Entry& entry) const { return {text_.data() + entry.begin, entry.bytes}; }
  void append(std::string_view word, uint64_t hash, int64_t count, Slot& slot);
  void grow();

  std::string text_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // at most half full
};

// Word counts partitioned by hash, so that the counts of many threads can be summed by many threads.
class PartitionedWordCounts {
 public:
  static constexpr size_t kParts = 64;

  void add(std::string_view word);
  // Returns the sum of all `counts`. It does not depend on their order.
  static PartitionedWordCounts sum(const std::vector<const PartitionedWordCounts*>& counts);

  const std::array<WordCounts, kParts>& parts() const { return parts_; }
  size_t size() const;

 private:
  std::array<WordCounts, kParts> parts_;
};

}  // namespace genesis::text
