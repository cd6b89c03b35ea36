#include "tools/text/prompts.h"

#include <nlohmann/json.hpp>

#include "schema/file/io/file_ending.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "tools/common/printable.h"
#include "tools/common/usage.h"

namespace genesis::tools {
namespace {

// Returns the text of the file without the byte order mark that some editors put in front of UTF-8.
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

}  // namespace

std::optional<std::string> Prompts::next_line() {
  while (at_ < lines_.size()) {
    const size_t end = std::min(lines_.find('\n', at_), lines_.size());
    std::string line = lines_.substr(at_, end - at_);
    if (line.ends_with('\r')) line.pop_back();
    at_ = end + 1;
    ++line_;
    if (line.find_first_not_of(" \t\r") != std::string::npos) return line;
  }
  return std::nullopt;
}

std::optional<Prompt> Prompts::next() {
  if (whole_taken_ < whole_.size()) return whole_[whole_taken_++];
  std::optional<std::string> line = next_line();
  if (!line) return std::nullopt;
  const std::string place = fmt::format("{}, line {}", path_, line_);
  const bool is_text = file_ending(path_) == ".txt";
  return with_context(
      [&] {
        return Prompt{is_text ? std::move(*line) : prompt_in(*line), " of " + place};
      },
      [&] { return place; });
}

void Prompts::rewind() { whole_taken_ = at_ = line_ = 0; }

nlohmann::json Prompts::to_json() const {
  auto whole = nlohmann::json::array();
  for (const Prompt& prompt : whole_) whole.push_back({prompt.text, prompt.place});
  return {whole, path_, lines_};
}

Prompts Prompts::from_json(const nlohmann::json& json) {
  std::vector<Prompt> whole;
  for (const auto& prompt : json[0]) whole.push_back({prompt[0], prompt[1]});
  return {std::move(whole), json[1], json[2]};
}

void PromptFlags::add_to(Command& app) {
  app.add_option("--prompt", texts, "text to continue; may be given again, for more texts")
      ->allow_extra_args(false);
  app.add_option("--prompt-file", files, "a file with a text to continue; may be given again")
      ->allow_extra_args(false);
  app.add_option("--prompts", lines,
                 "a file of many prompts: .txt with one per line, or JSONL with a string, or an object with "
                 "a string \"prompt\", per line");
}

Prompts PromptFlags::read() const {
  if (texts.empty() && files.empty() && lines.empty())
    fail_usage("there is nothing to go on from: give --prompt, --prompt-file or --prompts");
  std::vector<Prompt> whole;
  for (const std::string& text : texts) whole.push_back({text});
  for (const std::string& file : files) whole.push_back({read_prompts(file), " of " + file});
  return {std::move(whole), lines, lines.empty() ? "" : read_prompts(lines)};
}

}  // namespace genesis::tools
