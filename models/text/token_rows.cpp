#include "models/text/token_rows.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "schema/core/error.h"
#include "schema/messages/log.h"

namespace genesis::text {
namespace {

// Returns "'[PAD]' (300)".
std::string described_token(const Tokenizer& tokenizer, int64_t id) {
  return fmt::format("'{}' ({})", tokenizer.id_to_token(id).value_or(""), id);
}

}  // namespace

void check_token_rows(const Tokenizer& tokenizer, int64_t rows, const std::string& whose,
                      const std::string& file) {
  constexpr size_t kShown = 5;
  std::vector<std::string> shown;
  size_t without = 0;
  for (int64_t id = rows; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.id_to_token(id)) continue;
    if (!tokenizer.is_added(id))
      fail("{} has {} tokens, more than the model has: {} ({})", whose, tokenizer.vocab_size(), rows, file);
    if (++without <= kShown) shown.push_back(described_token(tokenizer, id));
  }
  if (without == 0) return;
  log_warning(
      "{} has {} added tokens that {}, a model of {} tokens, has no rows for: {}{}; a text with "
      "one of them cannot be read",
      whose, without, file, rows, fmt::join(shown, ", "), without > kShown ? ", ..." : "");
}

void check_have_rows(std::span<const int64_t> tokens, int64_t rows, const Tokenizer& tokenizer) {
  const auto without = std::ranges::find_if(tokens, [&](int64_t token) { return token >= rows; });
  if (without != tokens.end())
    fail("the text has the token {}, which the model has no row for: it knows {} tokens",
         described_token(tokenizer, *without), rows);
}

}  // namespace genesis::text
