#include "schema/file/links/linked_files.h"

#include <map>

#include "schema/core/error.h"

namespace genesis::file {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<const MappedFile> open_link(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    fail(
        "its weights are in '{}', which is not there: bring that file back to where it was, or build the "
        "model again from where it is now (genesis-build FOLDER --link; without --link weights are copied)",
        path.string());
  return MappedFile::open(path);
}

OpenedLink checked(const LinkRecord& link, std::shared_ptr<const MappedFile> file) {
  const FileStamp& stamp = file->stamp();
  if (stamp.bytes != link.bytes)
    fail(
        "its weights are in '{}', which has changed since: {} bytes, it had {}; build the model again "
        "(genesis-build FOLDER --link)",
        file->path().string(), stamp.bytes, link.bytes);
  return {std::move(file), stamp.written != link.written};
}

}  // namespace

std::vector<OpenedLink> open_links(const std::vector<SegmentRecord>& segments, const fs::path* folder) {
  std::vector<OpenedLink> opened(segments.size());
  std::map<std::string, std::shared_ptr<const MappedFile>> files;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!segments[i].is_linked()) continue;
    const LinkRecord& link = segments[i].link;
    if (!folder) fail("its weights are in '{}', which is found from a file only", link.path);
    auto& file = files[link.path];
    if (!file) file = open_link(*folder / link.path);
    opened[i] = checked(link, file);
  }
  return opened;
}

}  // namespace genesis::file
