// ZIP archives whose entries are stored, not compressed: what torch.save and torch.export.save write, and numpy's .npz without
// compression. Entries are views into the mapped file. The file is not trusted. Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3
// to 4.5, with the ZIP64 records for sizes beyond 4 GiB.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "schema/file/io/mapped_file.h"

namespace genesis {

struct ZipArchive {
  std::shared_ptr<const MappedFile> file;
  std::map<std::string, std::span<const std::byte>>
      entries;  // by name, such as "model/data/weights/weight_0"
};

// Returns true if the file begins like a ZIP archive.
bool is_zip_file(const std::filesystem::path& path);

// Throws Error naming the path if the archive is damaged, encrypted, in several parts, or has a compressed entry or a name twice.
ZipArchive read_zip(const std::filesystem::path& path);

}  // namespace genesis
