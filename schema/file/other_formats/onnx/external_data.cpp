#include "schema/file/other_formats/onnx/external_data.h"

#include <algorithm>

#include "schema/core/error.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

// Returns the real path of a named file. Throws Error if it is not inside the folder.
fs::path path_inside(const fs::path& folder, const std::string& location) {
  const fs::path named = location;
  const bool goes_up = std::ranges::find(named, fs::path("..")) != named.end();
  if (folder.empty() || location.empty() || location.find('\0') != std::string::npos || named.is_absolute() ||
      goes_up)
    fail("the external file '{}' is refused: expected a file in the folder of the model", location);
  std::error_code problem;
  const fs::path root = fs::canonical(folder, problem);
  if (problem) fail("cannot open the folder '{}': {}", folder.string(), problem.message());
  const fs::path real = fs::canonical(root / named, problem);
  if (problem) fail("cannot open the external file '{}': {}", location, problem.message());
  const auto [end_of_root, unused] = std::ranges::mismatch(root, real);
  if (end_of_root != root.end())
    fail("the external file '{}' is refused: it is a link out of the folder of the model", location);
  if (!fs::is_regular_file(real)) fail("the external file '{}' is no regular file", location);
  // A second name of a file elsewhere looks like a file of the folder (CVE-2026-34446).
  if (const auto names = fs::hard_link_count(real, problem); problem || names != 1)
    fail(
        "the external file '{}' is refused: it has {} names (hard links), so that it may be a file of "
        "another "
        "folder; a copy of it (cp) has one",
        location, names);
  return real;
}

}  // namespace

std::shared_ptr<const MappedFile> OnnxExternalFiles::open(const OnnxExternalData& data, int64_t bytes) {
  auto& file = files_[data.location];
  if (!file) file = MappedFile::open(path_inside(folder_, data.location));
  const auto size = static_cast<int64_t>(file->bytes().size());
  if (data.offset > size || bytes > size - data.offset)
    fail("the external file '{}' has {} bytes: expected {} from byte {}", data.location, size, bytes,
         data.offset);
  return file;
}

MappedFiles OnnxExternalFiles::files() const {
  MappedFiles all;
  for (const auto& [name, file] : files_)
    if (file) all.push_back(file);
  return all;
}

}  // namespace genesis
