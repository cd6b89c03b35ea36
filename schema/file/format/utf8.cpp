#include "schema/file/format/utf8.h"

#include <algorithm>

namespace genesis::utf8 {

size_t valid_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Character next = first_character(text.substr(at));
    if (!next.valid) break;
    at += next.bytes;
  }
  return at;
}

void append(std::string& text, uint32_t code) {
  const auto follow = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | code >> 6), follow(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | code >> 12), follow(6), follow(0);
  } else {
    text += static_cast<char>(0xf0 | code >> 18), follow(12), follow(6), follow(0);
  }
}

bool is_valid(std::string_view text) { return valid_bytes(text) == text.size(); }

std::string repaired(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    const size_t valid = valid_bytes(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) return out;
    append(out, 0xfffd);
    text.remove_prefix(first_character(text).bytes);
  }
}

size_t whole_characters(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back)
    if (first_character(text.substr(text.size() - back)).cut_short) return text.size() - back;
  return text.size();
}

}  // namespace genesis::utf8
