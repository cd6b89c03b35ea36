// A folder of this process for the files of a launcher's helpers. mpirun and ranks leave files behind when they are killed, ranks
// in shared memory (/dev/shm); these files are removed with the folder.
#pragma once

#include <filesystem>

namespace genesis {

// Creates the folder in `base`. Folders there of processes that were killed are removed first.
class SessionFolder {
 public:
  explicit SessionFolder(const std::filesystem::path& base);
  ~SessionFolder();
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }  // empty: it could not be created

 private:
  void make(const std::filesystem::path& base);

  std::filesystem::path path_;
  int lock_ = -1;  // the folder, locked while this process lives
};

}  // namespace genesis
