#include "models/tokenizer/replacement.h"

#include <algorithm>
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

std::string Replacement::in(std::string_view text, MatchState& state, size_t* lead) const {
  std::string replaced;
  size_t kept = 0;
  const auto add = [&](std::string_view piece, bool is_match) {
    const std::string_view part = is_match ? std::string_view(content_) : piece;
    state.budget.spend_bytes(part.size());
    const auto begin = static_cast<size_t>(piece.data() - text.data());
    if (lead && begin < *lead)
      kept += !is_match                       ? std::min(piece.size(), *lead - begin)
              : begin + piece.size() <= *lead ? part.size()
                                              : 0;
    replaced += part;
  };
  if (const Literal* text_sought = literal())
    text_sought->split(text, add);
  else
    std::get<SplitExpression>(matcher_).split(text, state, add);
  if (lead) *lead = kept;
  return replaced;
}

}  // namespace genesis::text
