#include "schema/file/links/linked_files.h"

#include <map>

#include "schema/core/error.h"

namespace genesis::file {
namespace {

namespace fs = std::filesystem;

// Only checkpoints of several ranks are written to folders with this ending.
bool is_part(const fs::path& path) { return path.parent_path().extension() == ".parts"; }

constexpr const char* kRestorePart =
    "a checkpoint and the folder of its parts stay together: bring them back from where they were copied or "
    "moved, or take the checkpoint before this one, as `genesis-run train --resume` does";

std::shared_ptr<const MappedFile> open_link(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    fail("its weights are in '{}', which is not there: {}", path.string(),
         is_part(path) ? kRestorePart
                       : "bring that file back to where it was, or build the model again from where it is now "
                         "(genesis-build FOLDER --link; without --link weights are copied)");
  return MappedFile::open(path);
}

OpenedLink checked(const LinkRecord& link, std::shared_ptr<const MappedFile> file) {
  const FileStamp& stamp = file->stamp();
  if (stamp.bytes != link.bytes)
    fail("its weights are in '{}', which has changed since: {} bytes, it had {}; {}", file->path().string(),
         stamp.bytes, link.bytes, remedy_for_change(file->path()));
  return {std::move(file), stamp.written != link.written};
}

}  // namespace

const char* remedy_for_change(const fs::path& path) {
  return is_part(path) ? kRestorePart : "build the model again (genesis-build FOLDER --link)";
}

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
