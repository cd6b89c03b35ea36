#include "models/tokenizer/words/word_piece.h"

#include <algorithm>

#include "schema/core/error.h"

namespace genesis::text {
namespace {

uint64_t characters_of(std::string_view text) {
  return static_cast<uint64_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

}  // namespace

WordPiece::WordPiece(const WordPieceModel& model, const Vocabulary& vocabulary)
    : max_characters_(model.max_characters),
      unknown_token_(model.unk_token),
      unknown_(id_in(vocabulary, model.unk_token)) {
  tokens_ = PrefixTree({vocabulary.begin(), vocabulary.end()});
  continuing_ = tokens_.find(model.continuing_prefix);
}

WordPiece::Found WordPiece::longest(std::string_view text, uint32_t node, WorkBudget& budget) const {
  Found found = {PrefixTree::kNone, 0};
  size_t at = 0;
  while (at < text.size() && node != PrefixTree::kNone) {
    node = tokens_.next(node, static_cast<unsigned char>(text[at++]));
    if (node != PrefixTree::kNone && tokens_.token(node) != PrefixTree::kNone)
      found = {tokens_.token(node), at};
  }
  if (!budget.spend_steps(at + 1))
    fail("a word of the text nearly matches too many long tokens of 'model.vocab': it has {} bytes left",
         text.size());
  return found;
}

bool WordPiece::append(std::string_view word, WorkBudget& budget, std::vector<int64_t>& ids) const {
  uint32_t node = PrefixTree::kRoot;
  while (!word.empty()) {
    const Found found = longest(word, node, budget);
    if (found.token == PrefixTree::kNone) return false;
    ids.push_back(found.token);
    word.remove_prefix(found.bytes);
    node = continuing_;
  }
  return true;
}

void WordPiece::encode(std::string_view word, WorkBudget& budget, std::vector<int64_t>& ids) const {
  const size_t before = ids.size();
  if (characters_of(word) <= max_characters_ && append(word, budget, ids)) return;
  if (unknown_ < 0)
    fail("the text has '{}', which is no token, and neither is model.unk_token '{}'", word.substr(0, 60),
         unknown_token_);
  ids.resize(before);
  ids.push_back(unknown_);
}

}  // namespace genesis::text
