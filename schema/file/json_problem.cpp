#include "schema/file/json_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "schema/file/json_text.h"

namespace genesis {
namespace {

// Returns the name that Python's json.dumps wrote for a number that is not finite. The parser may have consumed its sign or first
// letters already, hence the search backward.
std::string_view no_number_at(std::string_view text, size_t byte) {
  for (size_t back = 1; back <= 3 && back <= byte; ++back) {
    if (byte - back > text.size()) continue;
    const std::string_view rest = text.substr(byte - back);
    for (const std::string_view name : {"NaN", "-Infinity", "Infinity"})
      if (rest.starts_with(name)) return rest.substr(0, name.size());
  }
  return {};
}

bool says(std::string_view words, std::string_view what) {
  return words.find(what) != std::string_view::npos;
}

}  // namespace

std::string json_problem(std::string_view text, size_t byte, std::string_view words) {
  if (const auto name = no_number_at(text, byte); !name.empty())
    return fmt::format(
        "{} at byte {} is no JSON, though Python's json.dumps writes it: write null or a finite number", name,
        byte);
  if (says(words, "surrogate"))
    return fmt::format(
        "the escape before byte {} is a lone surrogate, which is half of a character: text was cut inside of "
        "a "
        "character, so write the row again without it",
        byte);
  if (says(words, "ill-formed UTF-8")) return fmt::format("byte {} is no UTF-8", byte);
  if (says(words, "control character"))
    return fmt::format(
        "byte {} is a control character inside of a string: write it as an escape, such as \\n", byte);
  if (says(words, "number overflow")) return "a number is too large";
  if (byte > text.size()) return "it ends too early: was it cut short?";
  if (byte > 0 && text[byte - 1] == '\'')
    return fmt::format("byte {} is a single quote, and JSON writes strings between double quotes", byte);
  return fmt::format("something is wrong at byte {}", byte);
}

std::string why_no_json(std::string_view text) {
  try {
    static_cast<void>(parse_json_text(text).is_null());
  } catch (const nlohmann::json::parse_error& problem) {
    return json_problem(text, problem.byte, problem.what());
  } catch (const nlohmann::json::exception& problem) {
    return json_problem(text, 0, problem.what());
  }
  return "a number is too large";
}

}  // namespace genesis
