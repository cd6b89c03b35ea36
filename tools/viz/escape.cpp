#include "tools/viz/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace genesis::viz {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: what stands here is not UTF-8
};

Character read_utf8(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {};
  uint32_t code = first & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3Fu);
  }
  static constexpr uint32_t kMin[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kMin[bytes] || code > 0x10FFFF || is_surrogate) return {};
  return {code, bytes};
}

// Controls, marks of the direction of text, spaces without width, and what XML forbids.
bool is_hidden(uint32_t code) {
  static constexpr struct {
    uint32_t first, last;
  } kHidden[] = {{0, 0x1F},        {0x7F, 0x9F},     {0xAD, 0xAD},      {0x61C, 0x61C},
                 {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x206F},
                 {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE0FFF}};
  if ((code & 0xFFFE) == 0xFFFE) return true;  // no characters, in every plane
  return std::any_of(std::begin(kHidden), std::end(kHidden),
                     [code](const auto& range) { return range.first <= code && code <= range.last; });
}

std::string dot_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '&')
      out += "&amp;";  // Graphviz reads entities in every text
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
    const Character at = read_utf8(text);
    const size_t bytes = std::max<size_t>(at.bytes, 1);
    if (at.bytes == 0)
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
