#include "schema/file/json_problem.h"

#include <fmt/format.h>

#include <algorithm>

namespace genesis {
namespace {

// Returns the name that Python's json.dumps wrote for a number that is not finite. The parser may have consumed its sign or first
// letters already, hence the search backward.
std::string_view no_number_at(std::string_view text, size_t byte) {
  for (size_t back = 1; back <= 3 && back <= byte; ++back) {
    if (byte - back > text.size()) continue;
    const std::string_view rest = text.substr(byte - back);
    for (const std::string_view name : {"NaN", "-Infinity", "Infinity"})
      if (rest.starts_with(name)) {
        const size_t sign = byte > back && text[byte - back - 1] == '-' ? 1 : 0;
        return text.substr(byte - back - sign, name.size() + sign);
      }
  }
  return {};
}

bool says(std::string_view words, std::string_view what) {
  return words.find(what) != std::string_view::npos;
}

// Names the place of a byte, counted from 1.
std::string place(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
  const size_t feed = before.rfind('\n');
  if (feed == std::string_view::npos) return fmt::format("byte {}", byte);
  return fmt::format("line {}, column {}", 1 + std::count(before.begin(), before.end(), '\n'),
                     byte - feed - 1);
}

}  // namespace

std::string json_problem(std::string_view text, size_t byte, std::string_view words,
                         const std::string& path) {
  const std::string at = place(text, byte);
  if (const auto name = no_number_at(text, byte); !name.empty()) {
    return fmt::format(
        "{} at {} is no JSON, though Python's json.dumps writes it: {} is {}, which is no number of JSON, so "
        "write null or a finite number",
        name, at, path.empty() ? "it" : "'" + path + "'", name);
  }
  if (says(words, "surrogate"))
    return fmt::format(
        "the escape before {} is a lone surrogate, which is half of a character: text was cut inside of a "
        "character, so write the row again without it",
        at);
  if (says(words, "ill-formed UTF-8")) return at + " is no UTF-8";
  if (says(words, "control character"))
    return at + " is a control character inside of a string: write it as an escape, such as \\n";
  if (says(words, "number overflow")) return "a number is too large";
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return "it is empty from line 1 on, and an empty text is not valid JSON";
  if (byte > text.size())
    return fmt::format("it ends too early, in its line {}: was it cut short?",
                       1 + std::count(text.begin(), text.end(), '\n'));
  if (byte > 0 && text[byte - 1] == '\'')
    return at + " is a single quote, and JSON writes strings between double quotes";
  return "something is wrong at " + at;
}

}  // namespace genesis
