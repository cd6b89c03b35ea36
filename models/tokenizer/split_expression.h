// A regular expression that cuts text into words, ahead of byte-pair merges. Tokenizer files have them in Oniguruma's
// syntax; PCRE2 matches them here. Both read the same in different ways (\s, \h, ^, [[...]]), so an expression is
// translated, and what does not mean the same in both is refused. Classes are those of `tokenizers`, whatever Unicode
// PCRE2 has.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "models/tokenizer/newer_characters.h"
#include "models/tokenizer/work_budget.h"

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
  Parts& parts();  // made when they are needed first

  std::unique_ptr<Parts> parts_;
};

class SplitExpression {
 public:
  // Throws Error that says which part of the expression is not supported.
  explicit SplitExpression(const std::string& expression);

  // Calls `on_piece(piece, is_match)` with the matches, and with what lies between them, in their order. `text` must be
  // UTF-8. Throws Error where matching takes more than the budget of `state` allows.
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
  // The first match from `from` on; empty, at the end of the text, when there is none. Never empty before.
  std::pair<size_t, size_t> find(std::string_view text, size_t from, MatchState& state) const;
  // Calls PCRE2 on `text`, which is complete or continues beyond its end, and returns its code. Steps are counted against the
  // budget of `state` or limited to a few.
  int match(std::string_view text, bool is_whole, bool is_counted, MatchState& state) const;
  [[noreturn]] void refuse(std::string_view text, const std::string& why) const;

  std::string expression_;
  std::shared_ptr<pcre2_real_code_8> code_, counted_code_;  // the same, without and with a call at each step
  StandIns stand_ins_;
};

}  // namespace genesis::text
