// A regular expression that splits text into words before byte-pair merges. Tokenizer files have expressions in Oniguruma's
// syntax, but PCRE2 matches them here. The two read some constructs differently (\s, \h, ^, [[...]]), so an expression is
// translated, and constructs that cannot be are refused. Character classes are those of `tokenizers`, whatever Unicode version
// PCRE2 has.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "models/tokenizer/unicode/newer_characters.h"
#include "models/tokenizer/words/work_budget.h"

struct pcre2_real_code_8;

namespace genesis::text {

// Holds the memory that one thread matches with, and the budget for the current text.
class MatchState {
 public:
  MatchState();
  ~MatchState();

  WorkBudget budget;

 private:
  friend class SplitExpression;
  struct Parts;
  Parts& parts();  // created on first use

  std::unique_ptr<Parts> parts_;
};

class SplitExpression {
 public:
  // Throws Error that says which part of the expression is not supported.
  explicit SplitExpression(const std::string& expression);

  // Calls `on_piece(piece, is_match)` with the matches and the text between them, in order. `text` must be UTF-8. Throws Error if
  // matching exceeds the budget of `state`.
  template <class OnPiece>
  void split(std::string_view text, MatchState& state, const OnPiece& on_piece) const {
    std::string storage;
    const std::string_view known = stand_ins_.in(text, storage);
    for (size_t at = 0; at < text.size();) {
      const auto [begin, end] = find(known, at, state);
      if (begin > at) on_piece(text.substr(at, begin - at), false);
      if (end > begin) on_piece(text.substr(begin, end - begin), true);
      at = end;
    }
  }

 private:
  // Returns the range of the first match at or behind `from`, which is never empty; an empty range at the end of the text if
  // there is none.
  std::pair<size_t, size_t> find(std::string_view text, size_t from, MatchState& state) const;
  // Calls PCRE2 on `text`, which is complete or continues beyond its end, and returns PCRE2's code. Steps are charged to the
  // budget of `state`, or limited to a few.
  int match(std::string_view text, bool is_whole, bool is_counted, MatchState& state) const;
  [[noreturn]] void refuse(std::string_view text, const std::string& why) const;

  std::string expression_;
  std::shared_ptr<pcre2_real_code_8> code_, counted_code_;  // without and with a callout at each step
  StandIns stand_ins_;
};

}  // namespace genesis::text
