#include "models/tokenizer/words/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <utility>

#include "models/tokenizer/unicode/byte_alphabet.h"
#include "models/tokenizer/words/word_hash.h"
#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

constexpr size_t kShort = 48;  // symbols; scanning this few is faster than a heap
constexpr uint32_t kNone = ~uint32_t{0};

}  // namespace

Bpe::Bpe(const BpeModel& model, const Vocabulary& vocabulary, bool is_byte_level)
    : is_byte_level_(is_byte_level),
      fuses_unknown_(model.fuse_unk),
      unknown_token_(model.unk_token),
      rules_(std::bit_ceil(2 * model.merges.size() + 2)) {
  if (!unknown_token_.empty()) unknown_ = id_in(vocabulary, unknown_token_);
  for (size_t byte = 0; byte < 256; ++byte) {
    id_of_byte_[byte] = id_in(vocabulary, alphabet_text(std::string(1, static_cast<char>(byte))));
    fallback_[byte] = model.byte_fallback ? id_in(vocabulary, fmt::format("<0x{:02X}>", byte)) : -1;
  }
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const Merge& merge = model.merges[rank];
    const uint64_t pair = pair_of(merge.left, merge.right);
    rules_[slot_of(pair)] = {pair, static_cast<uint32_t>(rank), merge.result};
  }
  for (const auto& [token, id] : vocabulary) {
    const utf8::Character first = utf8::first_character(token);
    if (!is_byte_level && first.bytes == token.size()) id_of_code_.emplace(first.code, id);
    if (!model.whole_words_first) continue;
    if (!is_byte_level)
      whole_words_.emplace(token, id);
    else if (const auto bytes = alphabet_bytes(token))
      whole_words_.emplace(*bytes, id);
  }
}

size_t Bpe::slot_of(uint64_t pair) const {
  size_t at = mixed(pair) & (rules_.size() - 1);
  while (rules_[at].pair != pair && rules_[at].pair != kNoPair) at = (at + 1) & (rules_.size() - 1);
  return at;
}

const Bpe::Rule& Bpe::rule(uint32_t left, uint32_t right) const {
  return rules_[slot_of(pair_of(left, right))];
}

// Collects the initial symbols of a word. An unknown token is written when the next known character arrives, as in `tokenizers`:
// byte tokens in between are written before it.
class Bpe::SymbolWriter {
 public:
  explicit SymbolWriter(const Bpe& bpe) : bpe_(bpe) {}

  // `text` is the character as the vocabulary would write it.
  void add(int64_t id, std::string_view text) {
    if (id >= 0) {
      flush();
      symbols_.push_back(static_cast<uint32_t>(id));
    } else if (!falls_back(text) && !bpe_.unknown_token_.empty()) {
      add_unknown(text);
    }
  }
  Symbols finish() {
    flush();
    return std::move(symbols_);
  }

 private:
  bool falls_back(std::string_view text) {
    const auto id_of = [&](char byte) { return bpe_.fallback_[static_cast<unsigned char>(byte)]; };
    if (std::ranges::any_of(text, [&](char byte) { return id_of(byte) < 0; })) return false;
    for (const char byte : text) symbols_.push_back(static_cast<uint32_t>(id_of(byte)));
    return true;
  }
  void add_unknown(std::string_view text) {
    if (bpe_.unknown_ < 0)
      fail("the text has '{}', which is no token, and neither is model.unk_token '{}'", text,
           bpe_.unknown_token_);
    if (!bpe_.fuses_unknown_) flush();
    waits_ = true;
  }
  void flush() {
    if (std::exchange(waits_, false)) symbols_.push_back(static_cast<uint32_t>(bpe_.unknown_));
  }

  const Bpe& bpe_;
  Symbols symbols_;
  bool waits_ = false;
};

Bpe::Symbols Bpe::symbols_of(std::string_view word) const {
  SymbolWriter writer(*this);
  if (is_byte_level_) {
    for (const char byte : word) {
      const int64_t id = id_of_byte_[static_cast<unsigned char>(byte)];
      writer.add(id, id >= 0 ? std::string() : alphabet_text(std::string(1, byte)));
    }
    return writer.finish();
  }
  for (size_t at = 0; at < word.size();) {
    const utf8::Character character = utf8::first_character(word.substr(at));
    const auto found = id_of_code_.find(character.code);
    writer.add(found == id_of_code_.end() ? -1 : int64_t{found->second}, word.substr(at, character.bytes));
    at += character.bytes;
  }
  return writer.finish();
}

void Bpe::encode(std::string_view word, std::vector<int64_t>& ids) const {
  if (const auto whole = whole_words_.find(word); whole != whole_words_.end())
    return ids.push_back(whole->second);
  Symbols symbols = symbols_of(word);
  symbols.size() <= kShort ? merge_short(symbols) : merge_long(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

void Bpe::merge_short(Symbols& symbols) const {
  std::array<uint32_t, kShort> ranks;  // rank of merging each symbol with the next one
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

// Merges with a heap of candidate merges over a linked list of symbols. A candidate may be outdated when it is popped.
void Bpe::merge_long(Symbols& symbols) const {
  struct Neighbors {
    uint32_t before, behind;
  };
  const auto count = static_cast<uint32_t>(symbols.size());
  std::vector<Neighbors> beside(count);
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
    if (now.rank != rank) continue;  // one of the two symbols has changed since
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
