#include "schema/file/io/lfs_pointer.h"

#include <fstream>
#include <string>

#include "schema/core/error.h"

namespace genesis {
namespace {

constexpr size_t kMaxBytes = 1024;  // the specification's limit
constexpr std::string_view kStart = "version https://git-lfs.github.com/spec/";

// Returns " of 123456 bytes" from the line "size 123456"; empty if there is no such line.
std::string size_in(std::string_view pointer) {
  constexpr std::string_view kSize = "\nsize ";
  const size_t at = pointer.find(kSize);
  if (at == pointer.npos) return "";
  const std::string_view rest = pointer.substr(at + kSize.size());
  const std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789"));
  return digits.empty() ? "" : " of " + std::string(digits) + " bytes";
}

}  // namespace

void check_is_no_lfs_pointer(const std::filesystem::path& path, std::string_view contents) {
  if (contents.size() > kMaxBytes || !contents.starts_with(kStart)) return;
  fail(
      "'{}' is a pointer of git-lfs that stands for a file{}: get the file itself with `git lfs install && "
      "git lfs pull` in its repository, or download it again",
      path.string(), size_in(contents));
}

void check_is_no_lfs_pointer(const std::filesystem::path& path) {
  std::error_code error;  // a pipe cannot be read twice
  if (!std::filesystem::is_regular_file(path, error)) return;
  std::string start(kMaxBytes + 1, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(in.gcount()));
  check_is_no_lfs_pointer(path, start);
}

}  // namespace genesis
