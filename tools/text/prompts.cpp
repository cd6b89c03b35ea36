#include "tools/text/prompts.h"

#include <nlohmann/json.hpp>

#include "schema/file/io/file_ending.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "tools/common/printable.h"
#include "tools/common/usage.h"

namespace genesis::tools {
namespace {

// Without the byte order mark that some editors put in front of UTF-8: it is no part of a prompt.
std::string read_prompts(const std::string& path) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string text = read_whole_file(path);
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

std::string prompt_in(const std::string& line) {
  const auto json = try_parse_json_text(line);
  const auto& prompt = json.is_object() && json.contains("prompt") ? json["prompt"] : json;
  if (!prompt.is_string())
    fail("expected a JSON string, or an object with a string 'prompt', got {}", shortened(line));
  return prompt.get<std::string>();
}

void read_lines(const std::string& path, std::vector<Prompt>& prompts) {
  const std::string text = read_prompts(path);
  const bool is_text = file_ending(path) == ".txt";
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = fmt::format("{}, line {}", path, number);
    with_context(
        [&] {
          prompts.push_back({is_text ? line : prompt_in(line), " of " + place});
        },
        [&] { return place; });
  }
}

}  // namespace

void PromptFlags::add_to(Command& app) {
  app.add_option("--prompt", texts, "text to go on from; may be given again, for more texts")
      ->allow_extra_args(false);
  app.add_option("--prompt-file", files, "a file with such a text; may be given again")
      ->allow_extra_args(false);
  app.add_option(
      "--prompts", lines,
      "a file of many: .txt with one a line, or JSONL: a string, or an object with a string \"prompt\", a "
      "line");
}

std::vector<Prompt> PromptFlags::read() const {
  if (texts.empty() && files.empty() && lines.empty())
    fail_usage("there is nothing to go on from: give --prompt, --prompt-file or --prompts");
  std::vector<Prompt> prompts;
  for (const std::string& text : texts) prompts.push_back({text});
  for (const std::string& file : files) prompts.push_back({read_prompts(file), " of " + file});
  if (!lines.empty()) read_lines(lines, prompts);
  if (prompts.empty()) fail("{} has no prompts", lines);
  return prompts;
}

}  // namespace genesis::tools
