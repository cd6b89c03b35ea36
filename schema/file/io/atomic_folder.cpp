#include "schema/file/io/atomic_folder.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "schema/core/error.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/io/descriptor.h"
#include "schema/file/io/temporary_name.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

// Resolves links, so that a link to a folder stays a link, and turns "out/" into "out".
fs::path real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  const fs::path whole = error || real.empty() ? path : real;
  return whole.has_filename() ? whole : whole.parent_path();
}

// Removes a temporary folder whose writer is gone: a writer holds a lock on its folder, so one that can be locked belongs to a
// process that has died.
void remove_if_abandoned(const fs::path& temporary) {
  const Descriptor folder(::open(temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  std::error_code error;  // ignored: what cannot be removed stays
  if (folder.fd >= 0 && ::flock(folder.fd, LOCK_EX | LOCK_NB) == 0) fs::remove_all(temporary, error);
}

void remove_abandoned(const fs::path& path) {
  std::error_code error;
  for (fs::directory_iterator at(folder_of(path), error), end; !error && at != end; at.increment(error))
    if (target_of_temporary(at->path().filename().string()) == path.filename())
      remove_if_abandoned(at->path());
}

// Returns the names of everything in a folder. Those of a folder inside stand for it: "1_Pooling/config.json".
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!fs::is_directory(entry.symlink_status()) || fs::is_empty(entry.path()))
      names.push_back(entry.path().lexically_relative(folder).string());
  return names;
}

}  // namespace

void make_folders_around(const fs::path& path) {
  std::error_code error;
  fs::create_directories(fs::absolute(path).parent_path(), error);
  if (error) fail("cannot make the folders around '{}': {}", path.string(), error.message());
}

AtomicFolder::AtomicFolder(const fs::path& path, bool replace, MayGo may_go)
    : path_(real_path(path)), replace_(replace), may_go_(std::move(may_go)) {
  if (!path_.has_filename()) fail("cannot write the folder '{}': it has no name", path.string());
  check_replaceable();
  remove_abandoned(path_);
  create_temporary();
}

AtomicFolder::~AtomicFolder() {
  if (fd_ < 0) return;
  std::error_code error;
  fs::remove_all(temporary_, error);
  ::close(fd_);
}

void AtomicFolder::check_replaceable() const {
  std::error_code error;
  if (fs::equivalent(path_, fs::current_path(error), error))
    fail(
        "cannot write the folder '{}': it is the current folder, which would be replaced under the shell: "
        "name another one",
        path_.string());
  check_leads_somewhere(path_);
  if (!fs::exists(path_, error)) return;
  if (!fs::is_directory(path_, error))
    fail("cannot write the folder '{}': a file has that name", path_.string());
  const std::vector<std::string> names = names_in(path_);
  if (!names.empty() && !replace_) fail("the folder '{}' is there already and not empty", path_.string());
  std::vector<std::string> foreign;
  for (const std::string& name : names)
    if (!may_go_(name) || !fs::is_regular_file(path_ / name)) foreign.push_back(name);
  if (!foreign.empty())
    fail("the folder '{}' is not replaced, for that would delete: {}; move that away, or name another folder",
         path_.string(), fmt::join(foreign, ", "));
}

void AtomicFolder::create_temporary() {
  while (true) {
    temporary_ = temporary_beside(path_);
    registered_.set(temporary_);
    if (::mkdir(temporary_.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      fail_with("cannot create a folder beside it", errno);
    }
    fd_ = ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd_ < 0 && errno == ENOENT) continue;
    if (fd_ < 0) fail_with("cannot open the folder beside it", errno);
    // Another writer may have removed the new folder as abandoned before it was locked; then it has no name any more.
    struct stat facts;
    ::flock(fd_, LOCK_EX);
    if (::fstat(fd_, &facts) == 0 && facts.st_nlink > 0) return;
    ::close(fd_);
    fd_ = -1;
  }
}

void AtomicFolder::fail_with(const char* what, int error) const {
  fail("cannot write the folder '{}': {}: {}", path_.string(), what, std::strerror(error));
}

// Renames the new folder over an empty one. A folder that is not empty is exchanged with the new one and then deleted.
void AtomicFolder::put_in_place() {
  if (::rename(temporary_.c_str(), path_.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail_with("cannot put the new folder in its place", errno);
  check_replaceable();
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) != 0)
    fail_with("cannot exchange the new folder for the old one", errno);
  std::error_code error;
  fs::remove_all(temporary_, error);
  if (error)
    fail("'{}' was written, but the folder that it replaced is left in '{}': {}", path_.string(),
         temporary_.string(), error.message());
}

void AtomicFolder::commit() {
  if (::fsync(fd_) != 0 && errno != EINVAL) fail_with("the folder did not reach the disk", errno);
  put_in_place();
  ::close(std::exchange(fd_, -1));
  registered_.unregister();
  const Descriptor parent(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.fd >= 0 && ::fsync(parent.fd) != 0 && errno != EINVAL)
    fail("'{}' was written, but the folder around it could not be brought to the disk: {}", path_.string(),
         std::strerror(errno));
}

}  // namespace genesis
