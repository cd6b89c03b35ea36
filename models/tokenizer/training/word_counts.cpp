#include "models/tokenizer/training/word_counts.h"

#include "models/tokenizer/words/word_hash.h"
#include "schema/core/error.h"
#include "schema/core/parallel.h"

namespace genesis::text {

void WordCounts::add(std::string_view word, uint64_t hash, int64_t count) {
  if (2 * (entries_.size() + 1) > slots_.size()) grow();
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash;; ++at) {
    Slot& slot = slots_[at & (slots_.size() - 1)];
    if (slot.entry == kEmpty) return append(word, hash, count, slot);
    if (slot.tag != tag || word_of(entries_[slot.entry]) != word) continue;
    entries_[slot.entry].count += count;
    return;
  }
}

void WordCounts::append(std::string_view word, uint64_t hash, int64_t count, Slot& slot) {
  if (word.size() >= UINT32_MAX || entries_.size() >= kEmpty - 1)
    fail("a word of {} bytes, or more than {} words: training takes shorter words and fewer", word.size(),
         kEmpty - 1);
  slot = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(entries_.size())};
  entries_.push_back({hash, text_.size(), static_cast<uint32_t>(word.size()), count});
  text_ += word;
}

void WordCounts::grow() {
  slots_.assign(slots_.empty() ? 64 : 2 * slots_.size(), {});
  for (uint32_t entry = 0; entry < entries_.size(); ++entry) {
    const uint64_t hash = entries_[entry].hash;
    size_t at = hash;
    while (slots_[at & (slots_.size() - 1)].entry != kEmpty) ++at;
    slots_[at & (slots_.size() - 1)] = {static_cast<uint32_t>(hash >> 32), entry};
  }
}

void PartitionedWordCounts::add(std::string_view word) {
  // The partition is chosen by middle bits: a partition's table uses the lowest bits for slots and the highest for tags.
  const uint64_t hash = hash_of_word(word);
  parts_[hash >> 26 & (kParts - 1)].add(word, hash, 1);
}

PartitionedWordCounts PartitionedWordCounts::sum(const std::vector<const PartitionedWordCounts*>& counts) {
  PartitionedWordCounts all;
  in_parallel(kParts, 1, [&](int64_t first, int64_t) {
    const auto part = static_cast<size_t>(first);
    for (const PartitionedWordCounts* one : counts)
      one->parts_[part].for_each([&](std::string_view word, uint64_t hash, int64_t count) {
        all.parts_[part].add(word, hash, count);
      });
  });
  return all;
}

size_t PartitionedWordCounts::size() const {
  size_t words = 0;
  for (const WordCounts& part : parts_) words += part.size();
  return words;
}

}  // namespace genesis::text
