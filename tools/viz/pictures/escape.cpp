#include "tools/viz/pictures/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "schema/file/format/utf8.h"

namespace genesis::viz {
namespace {

// Returns true for control characters, marks of text direction, spaces without width, and characters that XML
// forbids.
bool is_hidden(uint32_t code) {
  static constexpr struct {
    uint32_t first, last;
  } kHidden[] = {{0, 0x1F},        {0x7F, 0x9F},     {0xAD, 0xAD},      {0x61C, 0x61C},
                 {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x206F},
                 {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE0FFF}};
  if ((code & 0xFFFE) == 0xFFFE) return true;  // not a character, in any plane
  return std::ranges::any_of(kHidden,
                             [code](const auto& range) { return range.first <= code && code <= range.last; });
}

std::string dot_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '&')
      out += "&amp;";  // Graphviz interprets entities in every text
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const utf8::Character at = utf8::first_character(text);
    const size_t bytes = at.valid ? at.bytes : 1;
    if (!at.valid)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (is_hidden(at.code))
      out += fmt::format("\\u{{{:x}}}", at.code);
    else
      out += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return out;
}

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string dot_string(std::string_view text) { return "\"" + dot_text(text) + "\""; }

std::string dot_lines(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "\\n") + dot_text(line);
  return "\"" + out + "\"";
}

}  // namespace genesis::viz
