#include "tools/common/printable.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "executor/environment.h"
#include "schema/file/format/utf8.h"

namespace genesis::tools {
namespace {

constexpr size_t kShort = 60, kLongestWord = 256, kLongestMessage = 4000;

// Returns true for control characters (C0, DEL, C1), marks of writing direction, line and paragraph separators, and
// invisible characters.
bool is_command(uint32_t code) {
  static constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200b, 0x200b}, {0x200e, 0x200f},
      {0x2028, 0x202e}, {0x2060, 0x2069}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
  return std::ranges::any_of(kRanges,
                             [&](const auto& range) { return code >= range.first && code <= range.second; });
}

// Returns the escape sequence of a character. JSON needs a surrogate pair beyond four hexadecimal digits.
std::string escape(uint32_t code, bool json) {
  if (code > 0xffff)
    return json ? fmt::format("\\u{:04x}\\u{:04x}", 0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff))
                : fmt::format("\\U{:08x}", code);
  return code < 0x80 && !json ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
}

std::string escaped(std::string_view text, std::string_view stays, bool json) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const utf8::Character next = utf8::first_character(text);
    const size_t bytes = next.valid ? next.bytes : 1;
    if (!next.valid)
      safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (is_command(next.code) && stays.find(text[0]) == std::string_view::npos)
      safe += escape(next.code, json);
    else
      safe += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return safe;
}

std::string without_middle(std::string_view text, size_t first, size_t last) {
  const size_t from = cut_before(text, first), to = cut_before(text, text.size() - last);
  return fmt::format("{}...({} bytes left out)...{}", text.substr(0, from), to - from, text.substr(to));
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, "", false); }
std::string printable_lines(std::string_view text) { return escaped(text, "\n\t", false); }
std::string printable_json(std::string_view json) { return escaped(json, "\n\t", true); }

std::string error_line(std::string_view message) {
  std::string line;
  for (size_t at = 0; at < message.size();) {  // one word at a time
    const size_t end = std::min(message.find_first_of(" \n", at), message.size());
    const std::string_view word = message.substr(at, end - at);
    line += word.size() > kLongestWord ? without_middle(word, kShort, kShort) : std::string(word);
    if (end < message.size()) line += message.substr(end).starts_with("\n  ") ? '\n' : ' ';
    at = end + 1;
  }
  if (line.size() > kLongestMessage) line = without_middle(line, kLongestMessage / 2, kLongestMessage / 2);
  return printable_lines(line);
}

bool writes_to_terminal() { return isatty(STDOUT_FILENO) && environment().output_kind != "file"; }

}  // namespace genesis::tools
