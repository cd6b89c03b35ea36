// UTF-8 by the Unicode standard: no overlong forms, no surrogates, nothing beyond U+10FFFF. Used by whatever reads text
// that somebody else wrote: names in files, what tools print, tokenizers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace genesis::utf8 {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // where it is not valid: the bytes that one U+FFFD stands for
  bool valid = false;
  bool cut_short = false;  // the text ends inside of it
};

// Of a text that is not empty. What is not valid ends where the standard lets the next character begin ("maximal subpart"),
// as in Python's errors="replace" and Rust's from_utf8_lossy.
inline Character first_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {first, 1, true};
  if (first < 0xc2 || first > 0xf4) return {0, 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  uint32_t code = first & (0xffu >> (bytes + 1));
  // The second byte decides what would be overlong, a surrogate or too large.
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
// The bytes up to what is not valid; all of them where nothing is.
size_t valid_bytes(std::string_view text);
bool is_valid(std::string_view text);
// With U+FFFD for what is not valid.
std::string repaired(std::string_view text);
// The bytes up to a character that the end of the text cuts short.
size_t whole_characters(std::string_view text);

}  // namespace genesis::utf8
