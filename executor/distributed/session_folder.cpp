#include "executor/distributed/session_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace genesis {
namespace {

namespace fs = std::filesystem;

std::string prefix() { return fmt::format("genesis-ranks-{}-", ::geteuid()); }

// Returns -1 if the path is not a folder of this user.
int open_folder(const fs::path& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat facts {};
  if (folder < 0 || (::fstat(folder, &facts) == 0 && facts.st_uid == ::geteuid())) return folder;
  ::close(folder);
  return -1;
}

// Removes the folder if its lock can be taken: the process it belonged to has died.
void remove_if_left(const fs::path& path) {
  const int folder = open_folder(path);
  if (folder < 0) return;
  std::error_code ignored;
  if (::flock(folder, LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, ignored);
  ::close(folder);
}

void remove_what_was_left(const fs::path& base) {
  std::error_code error;
  for (fs::directory_iterator at(base, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with(prefix())) remove_if_left(at->path());
}

}  // namespace

SessionFolder::SessionFolder(const fs::path& base) {
  if (base.empty()) return;  // there is no temporary folder on this system
  remove_what_was_left(base);
  make(base);
}

// Creates and locks the folder. Until it is locked, another process may take it for abandoned and remove it; so the existence is
// checked.
void SessionFolder::make(const fs::path& base) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::string name = base / (prefix() + "XXXXXX");
    if (!::mkdtemp(name.data())) return;
    const int folder = open_folder(name);
    std::error_code ignored;
    if (folder >= 0 && ::flock(folder, LOCK_EX) == 0 && fs::exists(name, ignored)) {
      path_ = name;
      lock_ = folder;
      return;
    }
    if (folder >= 0) ::close(folder);
    ::rmdir(name.c_str());  // also if the file system has no locks, since no process would ever remove it
  }
}

SessionFolder::~SessionFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace genesis
