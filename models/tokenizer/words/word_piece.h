// WordPiece (Schuster and Nakajima 2012), the tokenizer of BERT: a word is written with the longest token that it begins with, then
// the longest one that the rest begins with, and so on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/words/prefix_tree.h"
#include "models/tokenizer/words/vocabulary.h"
#include "models/tokenizer/words/work_budget.h"

namespace genesis::text {

struct WordPieceModel {
  std::string unk_token = "[UNK]";       // the token of a word that cannot be written with others
  std::string continuing_prefix = "##";  // tokens that do not begin a word have this prefix
  uint64_t max_characters = 100;         // a longer word becomes `unk_token`
};

class WordPiece {
 public:
  WordPiece(const WordPieceModel& model, const Vocabulary& vocabulary);

  // Appends the tokens of `word`, which must be UTF-8. Throws Error if it needs `unk_token` and that is not in the vocabulary,
  // and if long tokens that almost match exceed the budget.
  void encode(std::string_view word, WorkBudget& budget, std::vector<int64_t>& ids) const;

 private:
  struct Found {
    uint32_t token;  // PrefixTree::kNone: none
    size_t bytes;
  };
  // Returns the longest token that `text` begins with, where the path to `node` comes before the text.
  Found longest(std::string_view text, uint32_t node, WorkBudget& budget) const;
  // Appends the tokens of a word; returns false if the vocabulary does not have them.
  bool append(std::string_view word, WorkBudget& budget, std::vector<int64_t>& ids) const;

  PrefixTree tokens_;
  uint32_t continuing_ = PrefixTree::kNone;  // the node of the prefix
  uint64_t max_characters_;
  std::string unknown_token_;
  int64_t unknown_ = -1;  // its id
};

}  // namespace genesis::text
