// A file mapped read-only into memory, for as long as someone holds it: tensors read from files are views
// into one. Replacing the file by rename (as our writers do) leaves a mapping as it was; cutting it short in
// place does not, and reading past the new end is a bus error.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace genesis {

class MappedFile {
 public:
  // Throws Error naming the path and the reason.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}

  const std::byte* data_;
  size_t size_;
};

}  // namespace genesis
