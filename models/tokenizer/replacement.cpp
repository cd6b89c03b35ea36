#include "models/tokenizer/replacement.h"

#include <utility>

namespace genesis::text {
namespace {

std::variant<Literal, SplitExpression> matcher_of(const std::string& pattern, bool is_expression) {
  if (is_expression) return SplitExpression(pattern);
  return Literal(pattern);
}

}  // namespace

Replacement::Replacement(const std::string& pattern, bool is_expression, std::string content)
    : matcher_(matcher_of(pattern, is_expression)), content_(std::move(content)) {}

std::string Replacement::in(std::string_view text, MatchState& state) const {
  std::string replaced;
  const auto add = [&](std::string_view piece, bool is_match) {
    const std::string_view part = is_match ? std::string_view(content_) : piece;
    state.budget.spend_bytes(part.size());
    replaced += part;
  };
  if (const Literal* text_sought = literal())
    text_sought->split(text, add);
  else
    std::get<SplitExpression>(matcher_).split(text, state, add);
  return replaced;
}

}  // namespace genesis::text
