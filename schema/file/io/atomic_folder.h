// Writes a folder as a whole or not at all: files go to a temporary folder beside it, which takes its place by one rename
// after they have reached the disk. Whatever goes wrong before commit() returns, what was there stays as it was.
#pragma once

#include <filesystem>
#include <functional>

#include "schema/file/io/noted_temporaries.h"

namespace genesis {

// The folders that `path` is to stand in, where they are not there. Throws Error.
void make_folders_around(const std::filesystem::path& path);

class AtomicFolder {
 public:
  // Whether a file of this name may go when the folder is replaced.
  using MayGo = std::function<bool(const std::filesystem::path& name)>;

  // A folder that is there is replaced only where it is empty, or `replace` was asked for and all that it holds may go.
  // Removes what writers that were killed left behind. Throws Error naming the path, the reason and what is in the way.
  AtomicFolder(const std::filesystem::path& path, bool replace, MayGo may_go);
  ~AtomicFolder();  // without commit(): removes the temporary folder
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where the files are written, each with its own fsync (AtomicFile does that).
  const std::filesystem::path& files() const { return temporary_; }
  void commit();  // after this the new folder is in place

 private:
  void check_replaceable() const;
  void create_temporary();
  void put_in_place();
  [[noreturn]] void fail_with(const char* what, int error) const;

  std::filesystem::path path_, temporary_;
  NotedTemporary noted_;
  const bool replace_;
  const MayGo may_go_;
  int fd_ = -1;  // of the temporary folder, locked
};

}  // namespace genesis
