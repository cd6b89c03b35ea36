#include "models/text/prompts.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "schema/file/io/file_ending.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/messages/shortened.h"

namespace genesis::text {
namespace {

// Returns the text of the file without the byte order mark that some editors put in front of UTF-8.
std::string read_prompts(const std::string& path) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string text = read_whole_file(path);
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

bool is_list_of_tokens(const nlohmann::json& json) {
  return json.is_array() && !json.empty() &&
         std::ranges::all_of(json, [](const auto& each) { return each.is_number_integer(); });
}

Prompt prompt_in(const std::string& line, const std::string& place) {
  const auto json = try_parse_json_text(line);
  const auto& prompt = json.is_object() && json.contains("prompt") ? json["prompt"] : json;
  if (is_list_of_tokens(prompt)) return {"", place, prompt.get<std::vector<int64_t>>()};
  if (!prompt.is_string())
    fail(
        "expected a JSON string, a list of tokens, or an object with a string 'prompt' or such a list, got "
        "{}",
        shortened(line));
  return {prompt.get<std::string>(), place};
}

}  // namespace

Prompts::Prompts(const std::vector<std::string>& texts, const std::vector<std::string>& files,
                 const std::string& lines, const std::vector<std::vector<int64_t>>& tokens)
    : path_(lines) {
  for (const std::string& text : texts) whole_.push_back({text});
  for (const std::string& file : files) whole_.push_back({read_prompts(file), " of " + file});
  for (const auto& each : tokens) whole_.push_back({"", "", each});
  if (!lines.empty()) lines_ = read_prompts(lines);
}

Prompts::Prompts(const nlohmann::json& json) : path_(json[1]), lines_(json[2]) {
  for (const auto& prompt : json[0]) {
    Prompt& whole = whole_.emplace_back(Prompt{prompt[0], prompt[1]});
    if (!prompt[2].is_null()) whole.tokens = prompt[2].get<std::vector<int64_t>>();
  }
}

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
        return is_text ? Prompt{std::move(*line), " of " + place} : prompt_in(*line, " of " + place);
      },
      [&] { return place; });
}

void Prompts::rewind() { whole_taken_ = at_ = line_ = 0; }

nlohmann::json Prompts::to_json() const {
  auto whole = nlohmann::json::array();
  for (const Prompt& prompt : whole_)
    whole.push_back(
        {prompt.text, prompt.place, prompt.tokens ? nlohmann::json(*prompt.tokens) : nlohmann::json()});
  return {whole, path_, lines_};
}

Samples::Samples(const TextModel& model, Prompts prompts, SampleOptions options)
    : model_(model),
      context_(model.longest_text()),
      prompts_(std::move(prompts)),
      options_(std::move(options)),
      number_(options_.samples) {
  survey();
}

std::optional<Sample> Samples::next() {
  if (number_ == options_.samples && !next_prompt()) return std::nullopt;
  Sample sample{prompt_, index_ - 1, number_++, {tokens_, options_.generate}};
  sample.request.shares_prompt = options_.samples > 1;
  sample.request.options.seed += static_cast<uint64_t>(sample.number);
  return sample;
}

int64_t Samples::positions() const {
  const int64_t prompt = std::min(longest_, context_);
  return prompt + std::min(options_.generate.max_tokens, context_ - prompt);
}

void Samples::fit_cache(TextModel& model, int64_t rows) const {
  constexpr int64_t kStep = 64;
  const int64_t whole_steps = (positions() - 1) / kStep;
  model.set_cache(std::min(rows, count_),
                  whole_steps < (context_ - 1) / kStep ? (whole_steps + 1) * kStep : context_);
}

void Samples::generate_each(
    Generator& generator,
    const std::function<void(size_t number, const Sample&, const GenerateResult&)>& on_result) {
  std::map<size_t, Sample> under_way;  // by number of the text
  size_t taken = 0;
  const auto next_request = [&]() -> std::optional<Request> {
    std::optional<Sample> sample = next();
    if (!sample) return std::nullopt;
    Request request = std::move(sample->request);
    under_way.emplace(taken++, std::move(*sample));
    return request;
  };
  generator.generate_each(next_request, [&](size_t number, const GenerateResult& result) {
    on_result(number, under_way.at(number), result);
    under_way.erase(number);
  });
}

bool Samples::next_prompt() {
  std::optional<Prompt> prompt = prompts_.next();
  if (!prompt) return false;
  prompt_ = std::move(*prompt);
  tokens_ = prompt_.tokens ? *prompt_.tokens : model_.encode(prompt_.text);
  if (prompt_.tokens) prompt_.text = model_.decode(tokens_);
  read_ = std::ssize(tokens_);
  if (options_.truncate && read_ > context_) tokens_ = truncated(std::move(tokens_));
  ++index_;
  number_ = 0;
  return true;
}

// Cuts a prompt to its last tokens, leaving room for the answer, or half of the context if the answer may be longer.
std::vector<int64_t> Samples::truncated(std::vector<int64_t> tokens) const {
  const int64_t room = std::min(options_.generate.max_tokens, context_ / 2),
                most = std::max<int64_t>(1, context_ - std::max<int64_t>(room - 1, 0));
  tokens.erase(tokens.begin(), tokens.end() - most);
  return tokens;
}

void Samples::survey() {
  const int64_t vocabulary = model_.vocab_size();
  const auto is_unknown = [&](int64_t token) { return token < 0 || token >= vocabulary; };
  while (next_prompt()) {
    const int64_t size = std::ssize(tokens_);
    if (size < read_ && options_.on_truncated) options_.on_truncated(read_, size);
    longest_ = std::max(longest_, size);
    if (!unfit_ && (size == 0 || size > context_ || std::ranges::any_of(tokens_, is_unknown)))
      unfit_ = Sample{prompt_, index_ - 1, 0, {tokens_, options_.generate}};
  }
  count_ = static_cast<int64_t>(index_) * options_.samples;
  if (count_ == 0) fail("{} has no prompts", prompts_.lines_path());
  prompts_.rewind();
  index_ = 0, number_ = options_.samples;
}

}  // namespace genesis::text
