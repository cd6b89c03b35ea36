// A folder of this process's own for what a launcher's helpers keep in files while they run. mpirun leaves its files behind when it
// is killed, and so do ranks, in memory (/dev/shm): such files go with the folder. Used by local_launch.
#pragma once

#include <filesystem>

namespace genesis {

// In `base`. One that an earlier process has not removed, since it was killed itself, goes when the next is made there.
class SessionFolder {
 public:
  explicit SessionFolder(const std::filesystem::path& base);
  ~SessionFolder();
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }  // empty: none could be made

 private:
  void make(const std::filesystem::path& base);

  std::filesystem::path path_;
  int lock_ = -1;  // the folder itself, locked as long as this process lives
};

}  // namespace genesis
