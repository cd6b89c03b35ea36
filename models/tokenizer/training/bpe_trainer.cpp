#include "models/tokenizer/training/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <queue>

#include "models/tokenizer/training/pair_table.h"
#include "models/tokenizer/unicode/byte_alphabet.h"
#include "models/tokenizer/words/bpe.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

// A pair with the words that it was found in. A pair may be queued several times with different words, because a token can arise
// from different pairs: (a, bc) and (ab, c) both make abc.
struct Candidate {
  int64_t count;
  uint64_t pair;
  uint32_t words;  // index in found_

  // Orders candidates by ascending priority, as std::priority_queue needs it: rare pairs, then higher ids, then later lists.
  bool operator<(const Candidate& other) const {
    if (count != other.count) return count < other.count;
    return pair != other.pair ? pair > other.pair : words > other.words;
  }
};

class Trainer {
 public:
  Trainer(const PartitionedWordCounts& words, const BpeOptions& options) : options_(options) {
    for (const std::string& token : options.special_tokens) add_token(token);
    add_alphabet();
    if (static_cast<int64_t>(result_.tokens.size()) > options.vocab_size)
      fail("a vocabulary of {} tokens has no room: {} bytes and special tokens come first",
           options.vocab_size, result_.tokens.size());
    for (const WordCounts& part : words.parts())
      part.for_each([&](std::string_view word, uint64_t, int64_t count) { add_word(word, count); });
  }

  LearnedBpe run(const std::function<void(int64_t, int64_t)>& on_token) {
    count_pairs();
    while (static_cast<int64_t>(result_.tokens.size()) < options_.vocab_size && merge_next())
      if (on_token) on_token(static_cast<int64_t>(result_.tokens.size()), options_.vocab_size);
    drop_repeated_merges();
    return std::move(result_);
  }

 private:
  struct Word {
    uint64_t begin;
    uint32_t length;  // in symbols
    int64_t count;
  };

  uint32_t add_token(const std::string& text) {
    const auto [at, is_new] = ids_.emplace(text, static_cast<uint32_t>(result_.tokens.size()));
    if (is_new) result_.tokens.push_back(text);
    return at->second;
  }

  // Adds the bytes in the order of their characters in the byte alphabet.
  void add_alphabet() {
    std::array<std::pair<uint32_t, unsigned char>, 256> alphabet;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::string text = alphabet_text(std::string(1, static_cast<char>(byte)));
      alphabet[byte] = {utf8::first_character(text).code, static_cast<unsigned char>(byte)};
    }
    std::ranges::sort(alphabet);
    for (const auto& [code, byte] : alphabet)
      id_of_byte_[byte] = add_token(alphabet_text(std::string(1, static_cast<char>(byte))));
  }

  void add_word(std::string_view word, int64_t count) {
    if (word.size() < 2) return;  // it has no pairs
    words_.push_back({symbols_.size(), static_cast<uint32_t>(word.size()), count});
    for (const unsigned char byte : word) symbols_.push_back(id_of_byte_[byte]);
  }

  void count_pairs() {
    for (uint32_t i = 0; i < words_.size(); ++i)
      for (uint32_t k = 0; k + 1 < words_[i].length; ++k) {
        const uint32_t* symbol = &symbols_[words_[i].begin + k];
        change(symbol[0], symbol[1], words_[i].count, i);
      }
    queue_new_pairs();
  }

  // Changes the count of a pair by its change in this word.
  void change(uint32_t left, uint32_t right, int64_t count, uint32_t word) {
    PairTable::Row& row = pairs_.row(pair_of(left, right));
    row.count += count;
    if (count < 0) return;
    if (row.found_in == PairTable::kNowhere) {
      row.found_in = static_cast<uint32_t>(found_.size());
      found_.emplace_back();
      new_pairs_.push_back(pair_of(left, right));
    }
    std::vector<uint32_t>& words = found_[row.found_in];
    if (words.empty() || words.back() != word) words.push_back(word);
  }

  void queue_new_pairs() {
    for (const uint64_t pair : new_pairs_) {
      PairTable::Row& row = pairs_.row(pair);
      if (row.count > 0)
        queue_.push({row.count, pair, row.found_in});
      else
        found_[row.found_in] = {};
      row.found_in = PairTable::kNowhere;
    }
    new_pairs_.clear();
  }

  // Merges the next pair. Returns false if no remaining pair is frequent enough.
  bool merge_next() {
    while (!queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      if (const int64_t now = pairs_.row(top.pair).count; now != top.count) {
        top.count = now;
        queue_.push(top);
        continue;
      }
      if (top.count < 1 || top.count < options_.min_frequency) return false;
      merge(top);
      return true;
    }
    return false;
  }

  // Merges a pair in all of its words. Its own count stays unchanged, as in the library: if the pair arises again, the count
  // grows further.
  void merge(const Candidate& candidate) {
    const auto left = static_cast<uint32_t>(candidate.pair >> 32),
               right = static_cast<uint32_t>(candidate.pair);
    const uint32_t token = add_token(result_.tokens[left] + result_.tokens[right]);
    result_.merges.emplace_back(left, right);
    const std::vector<uint32_t> words = std::exchange(found_[candidate.words], {});
    for (const uint32_t word : words) merge_in(word, left, right, token);
    queue_new_pairs();
  }

  void merge_in(uint32_t index, uint32_t left, uint32_t right, uint32_t token) {
    Word& word = words_[index];
    uint32_t* symbols = &symbols_[word.begin];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < word.length; ++kept) {
      if (symbols[i] != left || i + 1 == word.length || symbols[i + 1] != right) {
        symbols[kept] = symbols[i++];
        continue;
      }
      if (kept > 0) {
        change(symbols[kept - 1], left, -word.count, index);
        change(symbols[kept - 1], token, word.count, index);
      }
      i += 2;
      if (i < word.length) {
        change(right, symbols[i], -word.count, index);
        change(token, symbols[i], word.count, index);
      }
      symbols[kept] = token;
    }
    word.length = kept;
  }

  // Drops all but the last rank of a pair that was merged several times.
  void drop_repeated_merges() {
    PairTable seen;
    std::vector<std::pair<uint32_t, uint32_t>> last;
    for (auto merge = result_.merges.rbegin(); merge != result_.merges.rend(); ++merge)
      if (seen.row(pair_of(merge->first, merge->second)).count++ == 0) last.push_back(*merge);
    result_.merges.assign(last.rbegin(), last.rend());
  }

  const BpeOptions& options_;
  LearnedBpe result_;
  Vocabulary ids_;
  std::array<uint32_t, 256> id_of_byte_;
  std::vector<uint32_t> symbols_;  // symbols of all words
  std::vector<Word> words_;
  PairTable pairs_;
  std::vector<uint64_t> new_pairs_;           // pairs found since the queue was last filled
  std::vector<std::vector<uint32_t>> found_;  // lists of words; used ones are empty
  std::priority_queue<Candidate> queue_;
};

}  // namespace

LearnedBpe train_bpe(const PartitionedWordCounts& words, const BpeOptions& options,
                     const std::function<void(int64_t, int64_t)>& on_token) {
  return Trainer(words, options).run(on_token);
}

}  // namespace genesis::text
