#include "models/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <queue>

#include "models/tokenizer/byte_alphabet.h"
#include "models/tokenizer/word_hash.h"

namespace genesis::text {
namespace {

constexpr size_t kShort = 48;  // symbols; a scan of so few is faster than a heap
constexpr uint32_t kNone = ~uint32_t{0};

}  // namespace

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

Bpe::Bpe(const Vocabulary& vocabulary, const std::vector<Merge>& merges, bool whole_words_first)
    : rules_(std::bit_ceil(2 * merges.size() + 2)) {
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto found = vocabulary.find(alphabet_text(std::string(1, static_cast<char>(byte))));
    id_of_byte_[byte] = found == vocabulary.end() ? -1 : int64_t{found->second};
  }
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t pair = pair_of(merges[rank].left, merges[rank].right);
    rules_[slot_of(pair)] = {pair, static_cast<uint32_t>(rank), merges[rank].result};
  }
  if (!whole_words_first) return;
  for (const auto& [token, id] : vocabulary)
    if (const auto bytes = alphabet_bytes(token)) whole_words_.emplace(*bytes, id);
}

size_t Bpe::slot_of(uint64_t pair) const {
  size_t at = mixed(pair) & (rules_.size() - 1);
  while (rules_[at].pair != pair && rules_[at].pair != kNoPair) at = (at + 1) & (rules_.size() - 1);
  return at;
}

const Bpe::Rule& Bpe::rule(uint32_t left, uint32_t right) const {
  return rules_[slot_of(pair_of(left, right))];
}

void Bpe::encode(std::string_view word, WordCache& cache, std::vector<int64_t>& ids) const {
  WordCache::Entry* entry = cache.entry(word);
  if (entry && WordCache::holds(*entry, word)) {
    ids.insert(ids.end(), entry->ids, entry->ids + entry->count);
    return;
  }
  const size_t before = ids.size();
  encode_new(word, ids);
  if (entry) WordCache::keep(*entry, word, ids.data() + before, ids.size() - before);
}

void Bpe::encode_new(std::string_view word, std::vector<int64_t>& ids) const {
  if (const auto whole = whole_words_.find(word); whole != whole_words_.end())
    return ids.push_back(whole->second);
  std::vector<uint32_t> symbols;
  for (const unsigned char byte : word)
    if (id_of_byte_[byte] >= 0) symbols.push_back(static_cast<uint32_t>(id_of_byte_[byte]));
  symbols.size() <= kShort ? merge_short(symbols) : merge_long(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

void Bpe::merge_short(std::vector<uint32_t>& symbols) const {
  std::array<uint32_t, kShort> ranks;  // of each symbol with the one behind it
  const auto rank_at = [&](size_t i) {
    ranks[i] = i + 1 < symbols.size() ? rule(symbols[i], symbols[i + 1]).rank : kNoRank;
  };
  for (size_t i = 0; i < symbols.size(); ++i) rank_at(i);
  while (symbols.size() > 1) {
    const auto lowest = std::min_element(ranks.begin(), ranks.begin() + static_cast<long>(symbols.size()));
    if (*lowest == kNoRank) return;
    const auto at = lowest - ranks.begin();
    symbols[at] = rule(symbols[at], symbols[at + 1]).result;
    symbols.erase(symbols.begin() + at + 1);
    std::copy(lowest + 2, ranks.begin() + static_cast<long>(symbols.size()) + 1, lowest + 1);
    rank_at(at);
    if (at > 0) rank_at(at - 1);
  }
}

// A heap of merges that were possible when they were pushed, over a list of symbols.
void Bpe::merge_long(std::vector<uint32_t>& symbols) const {
  struct Neighbours {
    uint32_t before, behind;
  };
  const auto count = static_cast<uint32_t>(symbols.size());
  std::vector<Neighbours> beside(count);
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap;  // rank, then position
  const auto push = [&](uint32_t at) {
    if (at == kNone || beside[at].behind == kNone) return;
    const uint32_t rank = rule(symbols[at], symbols[beside[at].behind]).rank;
    if (rank != kNoRank) heap.push(pair_of(rank, at));
  };
  for (uint32_t i = 0; i < count; ++i) beside[i] = {i - 1, i + 1 < count ? i + 1 : kNone};
  for (uint32_t i = 0; i < count; ++i) push(i);
  while (!heap.empty()) {
    const auto rank = static_cast<uint32_t>(heap.top() >> 32), at = static_cast<uint32_t>(heap.top());
    heap.pop();
    const uint32_t next = beside[at].behind;
    if (symbols[at] == kNone || next == kNone) continue;
    const Rule& now = rule(symbols[at], symbols[next]);
    if (now.rank != rank) continue;  // one of the two is another symbol by now
    symbols[at] = now.result;
    symbols[next] = kNone;
    beside[at].behind = beside[next].behind;
    if (beside[at].behind != kNone) beside[beside[at].behind].before = at;
    push(beside[at].before);
    push(at);
  }
  std::erase(symbols, kNone);
}

}  // namespace genesis::text
