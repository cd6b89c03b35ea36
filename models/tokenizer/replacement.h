// Replaces matches in a text: the step "Replace" of normalizers and decoders.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "models/tokenizer/literal.h"
#include "models/tokenizer/split_expression.h"

namespace genesis::text {

class Replacement {
 public:
  // Throws Error for an expression that is not supported, and for an empty pattern.
  Replacement(const std::string& pattern, bool is_expression, std::string content);

  // Returns null if the pattern is an expression.
  const Literal* literal() const { return std::get_if<Literal>(&matcher_); }
  const std::string& content() const { return content_; }

  // Returns the text with all matches replaced. `lead`, if given, is a number of leading bytes; it becomes the number of bytes of
  // the result that come from these. As in `tokenizers`, a replacement comes from the last byte of its match. Throws Error if the
  // result exceeds the budget of `state`.
  std::string in(std::string_view text, MatchState& state, size_t* lead = nullptr) const;

 private:
  std::variant<Literal, SplitExpression> matcher_;
  std::string content_;
};

}  // namespace genesis::text
