// Writes a file as a whole or not at all: bytes go to a temporary file in the same folder, which takes the
// place of the old one by rename after it has reached the disk. Whatever goes wrong before commit() returns
// (disk full, an exception, kill -9, loss of power), the old file stays as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "schema/file/io/noted_temporaries.h"

namespace genesis {

// Says what happens to a symbolic link that stands where a file is to be written.
enum class LinkAtName {
  kFollowed,  // the user gave the name: the file that the link leads to is replaced
  kReplaced,  // Genesis made the name up, as that of a checkpoint: nothing outside of its folder is written
};

class AtomicFile {
 public:
  // Books `total_bytes` on the disk where the file system can. Removes what writers that were killed left
  // behind. Throws Error naming the path, the reason, and for a full disk the bytes needed and available. A link that is
  // followed and leads to no file is refused.
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
  NotedTemporary noted_;
  uint64_t total_bytes_;
  uint64_t written_ = 0;
  uint64_t on_their_way_ = 0;  // bytes that the disk has been asked to take
  int fd_ = -1;
};

// Removes the temporary files that killed writers left in `folder`, of those files whose name `is_ours`
// accepts.
void remove_abandoned_files(const std::filesystem::path& folder,
                            const std::function<bool(const std::filesystem::path& name)>& is_ours);

// Convenience for small files.
void write_file_atomically(const std::filesystem::path& path, std::string_view text,
                           LinkAtName link = LinkAtName::kFollowed);

// Throws Error where an AtomicFile could not be written at `path`: it is a folder, a device or a link to nothing, or no file can be
// made in its folder. To find that out a file is made there and removed. For work that takes long, ahead of it.
void check_can_write_atomically(const std::filesystem::path& path);

// Throws Error for a symbolic link that leads to no file: writing to it would make one in a place that nobody looked at.
void check_leads_somewhere(const std::filesystem::path& path);

}  // namespace genesis
