#include "models/corpus/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "schema/core/error.h"
#include "schema/file/json_text.h"

namespace genesis::corpus {
namespace {

constexpr size_t kPart = 64 << 10;  // minimum bytes of a part
constexpr size_t kUnit = 1 << 20;
constexpr size_t kLongestSearch = 1 << 24;  // bytes searched for a line end to cut at

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Returns the first position at or behind `from` where a part may end: behind a line end, or between any two characters if no
// line end is found within kLongestSearch.
size_t end_of_part(std::string_view text, size_t from) {
  if (from >= text.size()) return text.size();
  const size_t last = std::min(text.size(), from + kLongestSearch);
  for (size_t at = from; (at = text.substr(0, last).find('\n', at)) != std::string_view::npos; ++at)
    if (at + 1 < text.size() && !is_space(text[at + 1])) return at + 1;
  if (last == text.size()) return last;
  size_t end = from;
  while (end < last && is_continuation(text[end])) ++end;
  return end;
}

// Splits a document into parts of limited size.
void cut(std::string_view document, uint64_t offset, bool begins, bool ends,
         const std::function<void(const DocumentPart&)>& on_part) {
  for (size_t at = 0; at < document.size();) {
    const size_t end = at + end_of_part(document.substr(at), kPart);
    on_part({.text = document.substr(at, end - at),
             .unit = document.size() > kUnit ? offset + at : offset,
             .is_first = begins && at == 0,
             .is_last = ends && end == document.size()});
    at = end;
  }
}

std::vector<BadLine> lines_of(const Chunk& chunk, const std::function<void(const DocumentPart&)>& on_part) {
  std::vector<BadLine> bad;
  uint64_t offset = chunk.begin;
  for_each_line(chunk.text(), [&](std::string_view line) {
    std::string document;
    try {
      document = document_in(line);
    } catch (const Error& error) {
      bad.push_back({offset, error.message()});
    }
    cut(document, offset, true, true, on_part);
    offset += line.size();
  });
  return bad;
}

// Calls `on_part` with the documents of a text chunk. A document begins where the file begins and behind each mark.
void texts_of(const Chunk& chunk, std::string_view mark,
              const std::function<void(const DocumentPart&)>& on_part) {
  const std::string_view before = chunk.file.substr(0, chunk.begin);
  bool begins = before.empty() || (!mark.empty() && before.ends_with(mark));
  for (size_t at = chunk.begin; at < chunk.end;) {
    const size_t next =
        mark.empty() ? std::string_view::npos : chunk.file.substr(0, chunk.end).find(mark, at);
    const bool marked = next != std::string_view::npos;
    const size_t end = marked ? next : chunk.end;
    cut(chunk.file.substr(at, end - at), at, begins, marked || end == chunk.file.size(), on_part);
    at = marked ? next + mark.size() : end;
    begins = marked;
  }
}

std::string fields_of(const nlohmann::json& object) {
  std::string names;
  for (const auto& [name, value] : object.items()) {
    if (names.size() > 100) return names + ", ...";
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
  }
  return names.empty() ? "none" : names;
}

}  // namespace

std::string document_in(std::string_view line) {
  if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) return "";
  const auto object = parse_json_object(line, "this line");
  const auto text = object.find("text");
  if (text == object.end() && object.contains("messages"))
    fail(
        "the object has 'messages' and no field 'text': text is read here, and a file is taken for "
        "conversations where one "
        "stands among its first lines");
  if (text == object.end() && object.contains("conversations")) fail("{}", kShareGptRow);
  if (text == object.end())
    fail(
        "the object has no field 'text' (its fields: {}): text is {{\"text\": ...}}, a conversation "
        "{{\"messages\": [...]}}",
        fields_of(object));
  if (!text->is_string()) fail("field 'text' is not a text but {}", text->type_name());
  return text->get<std::string>();
}

std::vector<Chunk> chunks_of(const std::filesystem::path& path, std::string_view file, size_t bytes,
                             std::string_view mark) {
  if (is_json_lines(path)) return chunks_of_lines(path, file, bytes);
  check_is_text(path, file);
  std::vector<Chunk> chunks;
  for (size_t at = 0; at < file.size(); at = chunks.back().end) {
    size_t end = at + end_of_part(file.substr(at), bytes);
    if (!mark.empty() && file.substr(end).starts_with(mark)) end += mark.size();
    chunks.push_back({path, file, at, end});
  }
  return chunks;
}

std::vector<BadLine> for_each_part(const Chunk& chunk, std::string_view mark,
                                   const std::function<void(const DocumentPart&)>& on_part) {
  if (chunk.is_jsonl()) return lines_of(chunk, on_part);
  texts_of(chunk, mark, on_part);
  return {};
}

std::string describe(const Chunk& chunk, const BadLine& line) {
  const auto begin = chunk.file.begin(), end = begin + static_cast<std::ptrdiff_t>(line.offset);
  return fmt::format("{}:{}: {}", chunk.path.string(), std::count(begin, end, '\n') + 1, line.reason);
}

}  // namespace genesis::corpus
