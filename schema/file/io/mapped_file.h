// A file mapped read-only into memory, for as long as someone holds it: tensors read from files are views
// into one. Replacing the file by rename (as our writers do) leaves a mapping as it was. Writing over the
// file in place does not: the bytes change under whoever reads them, and past a new, nearer end reading is a
// bus error. So everything that says where things lie is read with copy(), checked and used as a copy; only
// the elements of tensors are read where they are mapped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "schema/file/io/descriptor.h"

namespace genesis {

class MappedFile {
 public:
  // Throws Error naming the path and the reason.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Bytes as they are in the file now, which later writes do not change. Throws Error where the file has
  // become too short for them.
  std::vector<std::byte> copy(size_t offset, size_t count) const;

 private:
  MappedFile(Descriptor file, const std::byte* data, size_t size)
      : file_(std::move(file)), data_(data), size_(size) {}

  Descriptor file_;
  const std::byte* data_;
  size_t size_;
};

}  // namespace genesis
