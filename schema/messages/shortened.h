// Shortens texts of others for messages.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace genesis {

// Returns the last position up to `at` that is not inside a character.
inline size_t cut_before(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

// Returns the first 60 bytes of a longer text, and its length: `"In the begin..." (5000 bytes)`.
inline std::string shortened(std::string_view text) {
  constexpr size_t kShort = 60;
  if (text.size() <= kShort) return fmt::format("\"{}\"", text);
  return fmt::format("\"{}...\" ({} bytes)", text.substr(0, cut_before(text, kShort)), text.size());
}

}  // namespace genesis
