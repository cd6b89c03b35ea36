// Writes a folder completely or not at all: files go to a temporary folder beside it, which replaces it by one rename after the
// files have reached the disk. If anything fails before commit() returns, an existing folder stays as it was.
#pragma once

#include <filesystem>
#include <functional>

#include "schema/file/io/registered_temporaries.h"

namespace genesis {

// Creates the parent folders of `path` that do not exist. Throws Error.
void make_folders_around(const std::filesystem::path& path);

class AtomicFolder {
 public:
  // Returns true if a file of this name may be deleted when the folder is replaced. Names of files in folders inside are relative.
  using MayGo = std::function<bool(const std::filesystem::path& name)>;

  // Replaces an existing folder only if it is empty, or if `replace` is set and everything in it may be deleted. Removes the
  // temporary folders that killed writers left behind. Throws Error naming the path, the reason and the files in the way.
  AtomicFolder(const std::filesystem::path& path, bool replace, MayGo may_go);
  ~AtomicFolder();  // without commit(): removes the temporary folder
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // The folder to write the files to; each needs its own fsync (AtomicFile does that).
  const std::filesystem::path& files() const { return temporary_; }
  void commit();  // after this the new folder is in place

 private:
  void check_replaceable() const;
  void create_temporary();
  void put_in_place();
  [[noreturn]] void fail_with(const char* what, int error) const;

  std::filesystem::path path_, temporary_;
  RegisteredTemporary registered_;
  const bool replace_;
  const MayGo may_go_;
  int fd_ = -1;  // descriptor of the temporary folder, locked
};

}  // namespace genesis
