#include "models/serving/tool_calls.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "models/serving/json.h"

namespace genesis::serving {
namespace {

constexpr std::string_view kBegin = "<tool_call>", kEnd = "</tool_call>";
// Behind one of these follow calls up to the end of the answer.
constexpr std::string_view kToTheEnd[] = {"[TOOL_CALLS]", "<|python_tag|>"};

std::optional<ToolCall> call_in(const Json& object) {
  if (!object.is_object()) return {};
  const auto name = object.find("name");
  auto arguments = object.find("arguments");
  if (arguments == object.end()) arguments = object.find("parameters");
  if (name == object.end() || !name->is_string() || arguments == object.end()) return {};
  return ToolCall{name->get<std::string>(),
                  arguments->is_string() ? arguments->get<std::string>() : json_line(*arguments)};
}

// Returns the calls of a text that is an object or a list of them; none if it is anything else.
std::vector<ToolCall> calls_in(const std::string& text) {
  Json parsed = try_parse(text).value_or(Json());
  if (parsed.is_object()) parsed = Json::array({std::move(parsed)});
  if (!parsed.is_array()) return {};
  std::vector<ToolCall> calls;
  for (const Json& each : parsed) {
    const auto call = call_in(each);
    if (!call) return {};
    calls.push_back(*call);
  }
  return calls;
}

bool is_blank(const std::string& text) { return text.find_first_not_of(" \n\t\r") == std::string::npos; }

// Returns where a mark begins that the text has, or may have with what follows; its size if there is none.
size_t mark_in(const std::string& text, std::string_view mark) {
  for (size_t at = text.find(mark[0]); at != std::string::npos; at = text.find(mark[0], at + 1)) {
    const size_t size = std::min(mark.size(), text.size() - at);
    if (text.compare(at, size, mark.substr(0, size)) == 0) return at;
  }
  return text.size();
}

}  // namespace

// Moves the first call between marks out of the held text, with the text before it. Returns false if there is none that is whole.
bool ToolCallReader::read_marked(ToolText& found) {
  const size_t begin = held_.find(kBegin), end = held_.find(kEnd, begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos) return false;
  const size_t inside = begin + kBegin.size();
  const std::vector<ToolCall> calls = calls_in(held_.substr(inside, end - inside));
  const std::string before = held_.substr(0, calls.empty() ? end + kEnd.size() : begin);
  if (!is_blank(before)) found.text += before;
  found.calls.insert(found.calls.end(), calls.begin(), calls.end());
  held_.erase(0, end + kEnd.size());
  return true;
}

ToolText ToolCallReader::add(const std::string& piece) {
  held_ += piece;
  ToolText found;
  while (read_marked(found)) {
  }
  has_text_ = has_text_ || !is_blank(found.text) || !found.calls.empty();
  const size_t first = held_.find_first_not_of(" \n\t\r");
  const bool may_be_call =
      !has_text_ && (first == std::string::npos || held_[first] == '{' || held_[first] == '[');
  if (may_be_call) return found;
  size_t certain = mark_in(held_, kBegin);
  for (const std::string_view mark : kToTheEnd) certain = std::min(certain, mark_in(held_, mark));
  // Blank text may stand between two calls.
  if (is_blank(held_.substr(0, certain))) return found;
  found.text += held_.substr(0, certain);
  held_.erase(0, certain);
  has_text_ = true;
  return found;
}

ToolText ToolCallReader::finish() {
  ToolText found;
  std::string rest = held_;
  for (const std::string_view mark : kToTheEnd)
    if (rest.starts_with(mark)) rest.erase(0, mark.size());
  if (!has_text_ || rest.size() < held_.size()) found.calls = calls_in(rest);
  if (found.calls.empty() && !(is_blank(held_) && has_text_)) found.text = held_;
  held_.clear();
  return found;
}

}  // namespace genesis::serving
