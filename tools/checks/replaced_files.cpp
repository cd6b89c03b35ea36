#include "tools/checks/replaced_files.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "schema/core/error.h"
#include "schema/file/json_text.h"
#include "schema/file/model_file.h"

namespace genesis::tools {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_lost(const std::string& option, const fs::path& path, const std::string& what) {
  fail("{} {}: it is {}, which would be lost: name another file", option, path.string(), what);
}

// Returns true for a regular file that is not empty. Writing to a pipe or a device loses nothing.
bool holds_something(const fs::path& path) {
  std::error_code error;  // ignored: the command that opens the file reports it
  return fs::is_regular_file(path, error) && fs::file_size(path, error) > 0;
}

// Returns true if the file is a single line that is a JSON object with "messages".
bool is_conversation(const fs::path& path) {
  std::ifstream in(path);
  std::string line, next;
  if (!std::getline(in, line) || line.empty() || line[0] != '{' || std::getline(in, next)) return false;
  const nlohmann::json json = try_parse_json_text(line);
  return json.is_object() && json.contains("messages");
}

}  // namespace

void check_replaces_model(const std::string& option, const fs::path& path) {
  if (holds_something(path) && !is_model_file(path))
    fail_lost(option, path, "a file that is no .genesis file");
}

void check_replaces_conversation(const std::string& option, const fs::path& path) {
  if (!holds_something(path) || is_conversation(path)) return;
  fail_lost(option, path,
            is_model_file(path) ? "a .genesis file" : "a file with something else than one conversation");
}

void check_is_not_read(const std::string& option, const fs::path& output, const fs::path& read,
                       const std::string& what) {
  std::error_code error;  // ignored: a file that is missing is not the same file
  if (fs::equivalent(output, read, error))
    fail_lost(option, output, fmt::format("'{}' {}", read.string(), what));
}

}  // namespace genesis::tools
