// Opens the files that a .genesis file links to and compares them with their state when the links were written. The records
// passed check_records(), but they name files and are still not trusted.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "schema/file/format/records.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::file {

struct OpenedLink {
  std::shared_ptr<const MappedFile> file;  // null: the segment lies in the .genesis file itself
  bool is_rewritten = false;               // modified since it was linked, perhaps with the same bytes
};

// Returns the file of each segment, row by row. Paths are relative to `folder`; if it is null (bytes in memory), a linked segment
// is an Error. Throws Error naming a file that is missing or has another size, and says what to do.
std::vector<OpenedLink> open_links(const std::vector<SegmentRecord>& segments,
                                   const std::filesystem::path* folder);
// Returns advice for a linked file that has changed.
const char* remedy_for_change(const std::filesystem::path& path);

}  // namespace genesis::file
