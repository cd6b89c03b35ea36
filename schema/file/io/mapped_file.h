// A file mapped read-only into memory, for as long as someone holds it: tensors read from files are views
// into one. Replacing the file by rename (as our writers do) leaves a mapping as it was. Writing over the
// file in place does not: the bytes change under whoever reads them, and past a new, nearer end reading is a
// bus error. So everything that says where things lie is read with copy(), checked and used as a copy; only
// the elements of tensors are read where they are mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "schema/file/io/descriptor.h"

namespace genesis {

// What tells that a file was written to, without reading it: its size, and when it was written last.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t written = 0;  // nanoseconds since 1970
  bool operator==(const FileStamp&) const = default;
};

class MappedFile {
 public:
  // Throws Error naming the path and the reason.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }  // as it was opened
  const FileStamp& stamp() const { return stamp_; }            // of that moment
  // Bytes as they are in the file now, which later writes do not change. Throws Error where the file has
  // become too short for them.
  std::vector<std::byte> copy(size_t offset, size_t count) const;
  // Maps a range of the file to an address that the caller has reserved; offset and address begin pages. False: the system
  // refuses.
  bool map_at(void* address, size_t offset, size_t count) const;

 private:
  MappedFile(Descriptor file, std::filesystem::path path, const FileStamp& stamp, const std::byte* data)
      : file_(std::move(file)), path_(std::move(path)), stamp_(stamp), data_(data), size_(stamp.bytes) {}

  Descriptor file_;
  std::filesystem::path path_;
  FileStamp stamp_;
  const std::byte* data_;
  size_t size_;
};

using MappedFiles = std::vector<std::shared_ptr<const MappedFile>>;

}  // namespace genesis
