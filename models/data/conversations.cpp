#include "models/data/conversations.h"

#include <algorithm>
#include <iterator>

#include "models/chat/jinja/values/json_value.h"
#include "models/corpus/documents.h"
#include "models/corpus/text_files.h"
#include "schema/core/parallel.h"
#include "schema/file/io/read_file.h"

namespace genesis::data {
namespace {

using jinja::Value;

constexpr int64_t kLinesAtOnce = 16;

struct Line {
  int64_t number;
  std::string_view text;
};

// Returns the lines that are not blank, numbered from 1.
std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  int64_t number = 0;
  corpus::for_each_line(text, [&](std::string_view line) {
    ++number;
    if (line.find_first_not_of(" \t\r\n") != std::string_view::npos) lines.push_back({number, line});
  });
  return lines;
}

std::vector<chat::Sample> samples_of(std::string_view line, const chat::SampleMaker& maker) {
  const Value value = jinja::parse_json(line);
  if (!value.dict()) fail("expected an object with 'messages' or 'text', got {}", type_name(value));
  const Value *messages = value.dict()->find("messages"), *text = value.dict()->find("text");
  if (!messages && !text && value.dict()->find("conversations")) fail("{}", corpus::kShareGptRow);
  if ((messages != nullptr) == (text != nullptr)) fail("expected an object with either 'messages' or 'text'");
  if (messages) return maker.of_messages(*messages, chat::template_variables(*value.dict()));
  if (!text->text()) fail("'text' is not a text");
  return {maker.of_text(*text->text())};
}

void read_file(const std::filesystem::path& path, const chat::SampleMaker& maker, bool skip_bad,
               Conversations& all) {
  const std::string text = read_whole_file(path);
  corpus::check_is_text(path, text);
  const std::vector<Line> lines = lines_of(text);
  std::vector<std::vector<chat::Sample>> samples(lines.size());
  std::vector<std::string> problems(lines.size());
  in_parallel(static_cast<int64_t>(lines.size()), kLinesAtOnce, [&](int64_t first, int64_t last) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) try {
        samples[i] = samples_of(lines[i].text, maker);
      } catch (const Error& error) {
        problems[i] = fmt::format("{}:{}: {}", path.string(), lines[i].number, error.message());
      }
  });
  for (size_t i = 0; i < lines.size(); ++i) {
    if (problems[i].empty()) {
      std::move(samples[i].begin(), samples[i].end(), std::back_inserter(all.samples));
      continue;
    }
    if (!skip_bad) fail("{}; --skip-bad leaves such lines out", problems[i]);
    if (all.skipped++ == 0) all.first_skipped = problems[i];
  }
}

}  // namespace

Conversations read_conversations(const std::vector<std::filesystem::path>& files,
                                 const chat::SampleMaker& maker, bool skip_bad) {
  Conversations all;
  for (const std::filesystem::path& file : files) read_file(file, maker, skip_bad, all);
  return all;
}

}  // namespace genesis::data
