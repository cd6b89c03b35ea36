#include "models/tokenizer/literal.h"

#include "schema/core/error.h"

namespace genesis::text {

Literal::Literal(std::string text) : text_(std::move(text)), fallback_(text_.size() + 1) {
  if (text_.empty()) fail("the text that is looked for is empty");
  for (size_t i = 1; i < text_.size(); ++i) fallback_[i + 1] = next(fallback_[i], text_[i]);
}

std::pair<size_t, size_t> Literal::find(std::string_view text, size_t from) const {
  size_t matched = 0;
  for (size_t at = from; at < text.size(); ++at) {
    if (matched == 0) {
      at = text.find(text_[0], at);
      if (at == std::string_view::npos) break;
    }
    matched = next(matched, text[at]);
    if (matched == text_.size()) return {at + 1 - matched, at + 1};
  }
  return {text.size(), text.size()};
}

}  // namespace genesis::text
