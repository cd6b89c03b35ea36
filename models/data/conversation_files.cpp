#include "models/data/conversation_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/corpus/text_files.h"
#include "schema/core/error.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/io/mapped_file.h"
#include "schema/file/json_text.h"
#include "schema/messages/log.h"

namespace genesis::data {
namespace {

namespace fs = std::filesystem;

// Returns true if a line is a conversation; plain text may precede it. Searches only the beginning of the file, which
// may be larger than memory, and parses only lines that contain "messages". The text reader reports a conversation
// further on.
bool has_conversations(const std::string& name) {
  constexpr std::string_view kKey = "\"messages\"";
  constexpr size_t kLooked = 16 << 20;  // bytes
  std::error_code error;                // ignored: the reader of the file reports it
  if (!is_json_lines(name) || !fs::is_regular_file(name, error) || fs::is_empty(name, error)) return false;
  const auto file = MappedFile::open(name);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const size_t looked = std::min(text.size(), kLooked);
  for (size_t end = 0; end < looked;) {
    const auto* key =
        static_cast<const char*>(::memmem(text.data() + end, looked - end, kKey.data(), kKey.size()));
    if (!key) return false;
    const auto at = static_cast<size_t>(key - text.data());
    const size_t begin = text.rfind('\n', at) + 1;  // start of the line; 0 without a line feed
    end = std::min(text.find('\n', at), text.size());
    const auto object = try_parse_json_text(text.substr(begin, end - begin));
    if (object.is_object() && object.contains("messages")) return true;
  }
  return false;
}

bool is_blank(const fs::path& file) {
  std::ifstream in(file);
  in >> std::ws;
  return in.eof();
}

// Refuses conversations in one JSON array: they cannot be read, and as text the brackets would be learned too.
void check_is_no_json_of_conversations(const fs::path& file) {
  if (file_ending(file) != ".json") return;
  std::ifstream in(file);
  std::string begin(64 << 10, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(in.gcount()));
  const size_t first = begin.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || (begin[first] != '[' && begin[first] != '{')) return;
  for (const char* key : {"\"messages\"", "\"conversations\""})
    if (begin.find(key) != std::string::npos)
      fail(
          "'{}' is .json with {}: conversations are read from the lines of a .jsonl, each an object "
          "{{\"messages\": [...]}}: "
          "make one of it, as with `jq -c '.[]'`, or name it .txt if it is text to learn",
          file.string(), key);
}

}  // namespace

std::vector<std::string> without_folders(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (!fs::is_directory(name)) {
      files.push_back(name);
      continue;
    }
    for (const fs::path& file : corpus::text_files({name})) files.push_back(file.string());
  }
  return files;
}

std::vector<std::string> conversation_files(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::vector<std::string> more = without_folders({name});
    if (fs::is_directory(name) && std::any_of(more.begin(), more.end(), has_conversations))
      std::erase_if(more, [](const std::string& file) { return !is_json_lines(file); });
    files.insert(files.end(), more.begin(), more.end());
  }
  for (const std::string& file : files) check_is_no_json_of_conversations(file);
  std::vector<std::string> with, without;
  for (const std::string& file : files) (has_conversations(file) ? with : without).push_back(file);
  std::erase_if(without, [](const std::string& file) { return is_json_lines(file) && is_blank(file); });
  if (!with.empty() && !without.empty())
    fail(
        "'{}' has conversations and '{}' has none: one run takes either: name the files that have "
        "conversations, each by "
        "itself, or those of text",
        with[0], without[0]);
  return with;
}

void warn_of_skipped(const Conversations& read) {
  if (read.skipped > 0)
    log_warning("{} lines were left out, the first because of {}", read.skipped, read.first_skipped);
}

void warn_of_repaired(const std::string& where) {
  log_warning(
      "{} is no UTF-8, and others may follow: U+FFFD stands for what is not (a text in another encoding is "
      "made UTF-8 "
      "by iconv)",
      where);
}

}  // namespace genesis::data
