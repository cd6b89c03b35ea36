// A file mapped read-only into memory for as long as the object lives: tensors read from files are views into one. Replacing the
// file by rename (as our writers do) does not affect the mapping. Overwriting the file in place does: the bytes change while they
// are read, and reading beyond a new, nearer end is a bus error. Therefore everything that says where data lies is read with
// copy(), and the copy is checked and used; only the elements of tensors are read in the mapping itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "schema/file/io/descriptor.h"

namespace genesis {

// Detects that a file was modified without reading it: its size and its time of last modification.
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
  const std::filesystem::path& path() const { return path_; }  // the path that was opened
  const FileStamp& stamp() const { return stamp_; }            // size and time when it was opened
  // Copies bytes from the file as it is now; later writes do not change the copy. Throws Error if the file has become too short.
  std::vector<std::byte> copy(size_t offset, size_t count) const;
  // Maps a range of the file to an address that the caller has reserved; offset and address must be page-aligned. Returns false
  // if the system refuses.
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
