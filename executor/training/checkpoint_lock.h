// The exclusive right to write checkpoints into a folder: a second run would remove the files of the first one. It is a system
// lock (flock) on the file `.lock` in the folder, which the system releases when the process ends; a file left by a killed run
// does not block others. Reading checkpoints needs no lock.
//
// On NFS, flock works between machines if the server keeps locks (Linux clients since 2.6.12); with the mount options `nolock` or
// `local_lock=flock` it works on one machine only. If the file system has no locks at all, a warning is logged and training goes
// on without one.
#pragma once

#include <filesystem>
#include <string>

namespace genesis {

class CheckpointLock {
 public:
  // Creates the folder if it is missing. Throws Error that names the process that holds the lock, its host and since when.
  // Removes the temporary files of checkpoints whose writers were killed, and the shards of unfinished checkpoints.
  explicit CheckpointLock(const std::filesystem::path& directory);
  ~CheckpointLock();
  // Describes the process that holds the lock of a folder; empty: none seems to.
  static std::string owner(const std::filesystem::path& directory);
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

 private:
  bool try_lock();  // false: the file was removed meanwhile by the run that held it

  std::filesystem::path directory_, file_;
  int fd_ = -1;
};

}  // namespace genesis
