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

struct pcre2_real_code_8;

namespace genesis::text {

// What one thread needs to match.
class MatchState {
 public:
  MatchState();
  ~MatchState();

 private:
  friend class SplitExpression;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

class SplitExpression {
 public:
  // Throws Error that says which part of the expression is not supported.
  explicit SplitExpression(const std::string& expression);

  // Calls `on_word` with the matches, and with what lies between them, in their order. `text` must be UTF-8.
  template <class OnWord>
  void split(std::string_view text, MatchState& state, const OnWord& on_word) const {
    std::string storage;
    const std::string_view known = stand_ins_.in(text, storage);
    for (size_t at = 0; at < text.size();) {
      const auto [begin, end] = find(known, at, state);
      if (begin > at) on_word(text.substr(at, begin - at));
      if (end > begin) on_word(text.substr(begin, end - begin));
      at = end;
    }
  }

 private:
  // The first match from `from` on; empty, at the end of the text, when there is none. Never empty before.
  std::pair<size_t, size_t> find(std::string_view text, size_t from, MatchState& state) const;

  std::shared_ptr<pcre2_real_code_8> code_;
  StandIns stand_ins_;
};

}  // namespace genesis::text
