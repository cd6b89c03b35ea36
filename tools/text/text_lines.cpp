#include "tools/text/text_lines.h"

#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>

#include "schema/core/error.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/messages/shortened.h"

namespace genesis::tools {
namespace {

// Calls `take` for each line that is not empty. Errors name the file and the line.
void for_each_line(const std::string& path, const std::function<void(const std::string& line)>& take) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  const std::string text = read_whole_file(path);
  size_t number = 0;
  for (size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    with_context([&] { take(line); }, [&] { return fmt::format("{}, line {}", path, number); });
  }
}

std::string text_in(const std::string& line) {
  const auto json = try_parse_json_text(line);
  const auto& text = json.is_object() && json.contains("text") ? json["text"] : json;
  if (!text.is_string())
    fail("expected a JSON string, or an object with a string \"text\", got {}", shortened(line));
  return text.get<std::string>();
}

std::pair<std::string, std::string> pair_in(const std::string& line) {
  const auto json = try_parse_json_text(line);
  const auto member = [&](size_t place, const char* name) {
    if (json.is_array() && json.size() == 2) return json[place];
    return json.is_object() ? json.value(name, nlohmann::json()) : nlohmann::json();
  };
  const auto first = member(0, "query"), second = member(1, "text");
  if (!first.is_string() || !second.is_string())
    fail("expected a list of two strings, or an object with the strings \"query\" and \"text\", got {}",
         shortened(line));
  return {first.get<std::string>(), second.get<std::string>()};
}

}  // namespace

std::vector<std::string> read_texts(const std::string& path) {
  std::vector<std::string> texts;
  const bool is_text = file_ending(path) == ".txt";
  for_each_line(path, [&](const std::string& line) { texts.push_back(is_text ? line : text_in(line)); });
  return texts;
}

std::vector<std::pair<std::string, std::string>> read_text_pairs(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for_each_line(path, [&](const std::string& line) { pairs.push_back(pair_in(line)); });
  return pairs;
}

std::string floats_json(const float* values, size_t count) {
  std::vector<std::string> numbers;
  for (const float value : std::span(values, count))
    numbers.push_back(std::isfinite(value) ? fmt::format("{}", value) : "null");
  return fmt::format("[{}]", fmt::join(numbers, ","));
}

}  // namespace genesis::tools
