// The files that a .genesis file is linked to, opened and compared with what they were when it was written: used by the
// reader. What the records say is checked, and still not to be trusted: it names files.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "schema/file/format/records.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::file {

struct OpenedLink {
  std::shared_ptr<const MappedFile> file;  // null: the segment lies in the .genesis file itself
  bool is_rewritten = false;               // since it was linked, perhaps with the same bytes
};

// Row by row what the segments lie in. Paths begin at `folder`; where there is none (bytes in memory), to be linked is an
// Error. Throws Error naming a file that is missing or of another size, and what to do.
std::vector<OpenedLink> open_links(const std::vector<SegmentRecord>& segments,
                                   const std::filesystem::path* folder);
// What to do about a linked file that has changed.
const char* remedy_for_change(const std::filesystem::path& path);

}  // namespace genesis::file
