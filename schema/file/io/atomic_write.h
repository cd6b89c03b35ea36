// Writes a file completely or not at all: bytes go to a temporary file in the same folder, which replaces the old one by rename
// after it has reached the disk. If anything fails before commit() returns (disk full, an exception, kill -9, loss of power), the
// old file stays as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "schema/file/io/link_at_name.h"
#include "schema/file/io/registered_temporaries.h"

namespace genesis {

class AtomicFile {
 public:
  // Reserves `total_bytes` on the disk if the file system can. Removes the temporary files that killed writers left behind.
  // Throws Error naming the path, the reason, and for a full disk the bytes needed and available. Refuses a followed link that
  // points to no file.
  AtomicFile(const std::filesystem::path& path, uint64_t total_bytes,
             LinkAtName link = LinkAtName::kFollowed);
  ~AtomicFile();  // without commit(): removes the temporary file
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write_zeros(uint64_t count);
  void commit();  // after this the new file is in place

 private:
  void create_temporary();
  void reserve();
  [[noreturn]] void fail_with(const char* what, int error) const;

  std::filesystem::path path_, temporary_;
  RegisteredTemporary registered_;
  uint64_t total_bytes_;
  uint64_t written_ = 0;
  uint64_t on_their_way_ = 0;  // bytes whose transfer to the disk has been started
  int fd_ = -1;
};

// Removes the temporary files that killed writers left in `folder`, for files whose name `is_ours` accepts.
void remove_abandoned_files(const std::filesystem::path& folder,
                            const std::function<bool(const std::filesystem::path& name)>& is_ours);

// Convenience for small files.
void write_file_atomically(const std::filesystem::path& path, std::string_view text,
                           LinkAtName link = LinkAtName::kFollowed);

// Throws Error if an AtomicFile could not be written at `path`: it is a folder, a device or a broken link, or its folder does not
// allow new files. To find out it creates and removes a file there. Call it before work that takes long.
void check_can_write_atomically(const std::filesystem::path& path);

// Throws Error for a symbolic link that points to no file: writing through it would create a file at an unexpected place.
void check_leads_somewhere(const std::filesystem::path& path);

}  // namespace genesis
