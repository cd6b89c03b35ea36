// The right to write checkpoints into a folder: one run has it at a time, because a second one would remove
// the first one's files. It is a lock of the system (flock) on the file `.lock` in the folder, so it goes
// with the process, however that ends; a file that a killed run left behind hinders nobody. Who only reads
// checkpoints needs no lock. Used by the trainer and by `genesis-run train`.
//
// On NFS, flock holds between machines where the server keeps locks (Linux clients since 2.6.12); with the
// mount options `nolock` or `local_lock=flock` it holds on one machine only. Where the file system has no
// locks at all there is a warning, and training goes on without one.
#pragma once

#include <filesystem>
#include <string>

namespace genesis {

class CheckpointLock {
 public:
  // Makes the folder when it is missing. Throws Error naming the process that holds the lock, its host and
  // since when. Removes the temporary files of checkpoints whose writers were killed, and the parts of those that were
  // not finished.
  explicit CheckpointLock(const std::filesystem::path& directory);
  ~CheckpointLock();
  // Who has the lock of a folder, in words; empty: nobody seems to.
  static std::string owner(const std::filesystem::path& directory);
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

 private:
  bool try_lock();  // false: the file was removed meanwhile, by the run that held it

  std::filesystem::path directory_, file_;
  int fd_ = -1;
};

}  // namespace genesis
