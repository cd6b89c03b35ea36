#include "executor/generation/prefixes.h"

#include <algorithm>

namespace genesis::generation {

int64_t shareable_after(int64_t shareable, int64_t at, int64_t count, int64_t unit) {
  if (unit == 1) return at + count;
  if (at == shareable && count == unit) return shareable + unit;
  return std::min(shareable, at / unit * unit);
}

std::optional<Prefix> longest_prefix(const std::vector<Row>& rows, std::span<const int64_t> prompt,
                                     int64_t unit) {
  std::optional<Prefix> best;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Text& text = *rows[r].text;
    if (rows[r].conversation != 0) continue;
    const int64_t limit = std::min({text.shareable, text.cached, text.size(), std::ssize(prompt) - 1});
    if (limit <= (best ? best->tokens : 0)) continue;
    const auto begin = text.tokens.begin();
    const auto differs =
        std::mismatch(begin, begin + static_cast<std::ptrdiff_t>(limit), prompt.begin()).first;
    const int64_t tokens = (differs - begin) / unit * unit;
    if (tokens > (best ? best->tokens : 0)) best = {r, tokens};
  }
  return best;
}

}  // namespace genesis::generation
