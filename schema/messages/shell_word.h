// Quotes names in commands that a message suggests, so that they can be pasted into a shell.
#pragma once

#include <string>
#include <string_view>

namespace genesis {

// Returns the word as a shell reads it: in quotes if it has blanks, quotes or other characters that are special to a shell.
inline std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  const bool is_plain = !word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos;
  if (is_plain) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace genesis
