// Replaces what matches in a text: "Replace" of normalizers and decoders.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "models/tokenizer/literal.h"
#include "models/tokenizer/split_expression.h"

namespace genesis::text {

class Replacement {
 public:
  // Throws Error for an expression that is not supported, and for an empty text.
  Replacement(const std::string& pattern, bool is_expression, std::string content);

  // Null where it is an expression.
  const Literal* literal() const { return std::get_if<Literal>(&matcher_); }
  const std::string& content() const { return content_; }

  // Throws Error where the budget of `state` does not allow it.
  std::string in(std::string_view text, MatchState& state) const;

 private:
  std::variant<Literal, SplitExpression> matcher_;
  std::string content_;
};

}  // namespace genesis::text
