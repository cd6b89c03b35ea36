// UTF-8 as the Unicode standard defines it: no overlong forms, no surrogates, nothing beyond U+10FFFF. For text from outside:
// names in files, text that tools print, tokenizers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace genesis::utf8 {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // if not valid: the bytes that one U+FFFD replaces
  bool valid = false;
  bool cut_short = false;  // the text ends within the character
};

// Decodes the first character of a text that is not empty. An invalid sequence ends where the standard lets the next character
// begin ("maximal subpart"), as in Python's errors="replace" and Rust's from_utf8_lossy.
inline Character first_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {first, 1, true};
  if (first < 0xc2 || first > 0xf4) return {0, 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  uint32_t code = first & (0xffu >> (bytes + 1));
  // The range of the second byte excludes overlong forms, surrogates and characters that are too large.
  unsigned least = first == 0xe0   ? 0xa0
                   : first == 0xf0 ? 0x90
                                   : 0x80,
           most = first == 0xed   ? 0x9f
                  : first == 0xf4 ? 0x8f
                                  : 0xbf;
  for (size_t i = 1; i < bytes; ++i, least = 0x80, most = 0xbf) {
    if (i == text.size()) return {0, i, false, true};
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < least || byte > most) return {0, i};
    code = code << 6 | (byte & 0x3fu);
  }
  return {code, bytes, true};
}

void append(std::string& text, uint32_t code);
// Returns the number of bytes before the first invalid sequence; the size of the text if all of it is valid.
size_t valid_bytes(std::string_view text);
bool is_valid(std::string_view text);
// Returns the text with U+FFFD in place of each invalid sequence.
std::string repaired(std::string_view text);
// Returns the number of bytes before a character that the end of the text cuts short.
size_t whole_characters(std::string_view text);

}  // namespace genesis::utf8
