#include "tools/checks/writable.h"

#include <filesystem>

#include "schema/core/error.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/io/temporary_name.h"
#include "tools/common/tool.h"

namespace genesis::tools {
namespace {

namespace fs = std::filesystem;

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

}  // namespace genesis::tools
