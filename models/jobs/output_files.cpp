#include "models/jobs/output_files.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "schema/core/error.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/io/temporary_name.h"
#include "schema/file/json_text.h"
#include "schema/file/model_file.h"

namespace genesis::jobs {
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

void check_folder_of(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) fail("cannot write '{}': it is a folder, give a file name", path);
  if (const fs::path folder = folder_of(path); !fs::is_directory(folder, error))
    fail("cannot write '{}': there is no folder '{}': make it first", path, folder.string());
}

}  // namespace

void check_can_write(const std::string& path) {
  if (path.empty()) return;
  check_folder_of(path);
  check_can_write_atomically(path);
}

void check_can_append(const std::string& path) {
  if (path.empty()) return;
  check_folder_of(path);
  std::error_code error;
  if (!fs::exists(path, error) || fs::is_regular_file(path, error)) check_can_write_atomically(path);
}

void check_can_make_folder(const std::string& path) {
  if (path.empty()) return;
  check_leads_somewhere(path);
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    fail("cannot write the folder '{}': a file has that name", path);
  fs::path there = fs::absolute(path, error);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, error))
    fail("cannot make the folder '{}': '{}' is a file", path, there.string());
  with_context([&] { check_can_write_atomically(there / "new"); },
               [&] { return fmt::format("while looking whether the folder '{}' can be written", path); });
}

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

}  // namespace genesis::jobs
