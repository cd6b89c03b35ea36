#include "schema/file/io/atomic_write.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "schema/core/error.h"
#include "schema/file/io/temporary_name.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBehind = size_t{64} << 20;

// Follows links, so that a link stays a link and its target is replaced.
fs::path through_links(fs::path path) {
  std::error_code error;
  for (int hops = 0; hops < 16 && fs::is_symlink(path, error); ++hops) {
    const fs::path target = fs::read_symlink(path, error);
    path = target.is_absolute() ? target : folder_of(path) / target;
  }
  return path;
}

// Returns the path that is actually written for `path`; the temporary file stands beside it.
fs::path place_of(const fs::path& path, LinkAtName link) {
  const fs::path place = link == LinkAtName::kFollowed ? through_links(path) : path;
  if (link == LinkAtName::kFollowed) check_leads_somewhere(path);
  std::error_code error;
  const fs::file_status there = fs::symlink_status(place, error);
  if (place.filename().empty() || fs::is_directory(there))
    fail("cannot write '{}': it is a folder, give a file name", path.string());
  const bool may_go = fs::is_regular_file(there) || (link == LinkAtName::kReplaced && fs::is_symlink(there));
  if (fs::exists(there) && !may_go)
    fail("cannot write '{}': it is a device or a pipe, which a file would replace", path.string());
  return place;
}

// Removes a temporary file whose writer is gone: a writer holds a lock on its file, so one that can be locked belongs to a
// process that has died.
void remove_if_abandoned(const fs::path& temporary) {
  const int fd = ::open(temporary.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlink(temporary.c_str());
  ::close(fd);
}

void remove_abandoned(const fs::path& path) {
  remove_abandoned_files(folder_of(path), [&](const fs::path& name) { return name == path.filename(); });
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path, uint64_t total_bytes, LinkAtName link)
    : path_(place_of(path, link)), total_bytes_(total_bytes) {
  remove_abandoned(path_);
  create_temporary();
  try {
    reserve();
  } catch (...) {
    ::close(fd_);
    ::unlink(temporary_.c_str());
    throw;
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(fd_);
}

void AtomicFile::create_temporary() {
  while (true) {
    temporary_ = temporary_beside(path_);
    registered_.set(temporary_);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0 && errno == EEXIST) continue;
    if (fd_ < 0) fail_with("cannot create a file beside it", errno);
    // Another writer may have removed the new file as abandoned before it was locked; then it has no name any more.
    struct stat facts;
    ::flock(fd_, LOCK_EX);
    if (::fstat(fd_, &facts) == 0 && facts.st_nlink == 1) break;
    ::close(fd_);
    fd_ = -1;
  }
  struct stat old;
  if (::lstat(path_.c_str(), &old) == 0 && S_ISREG(old.st_mode)) ::fchmod(fd_, old.st_mode & 0777);
}

// Detects a full disk before gigabytes are written.
void AtomicFile::reserve() {
  if (total_bytes_ == 0) return;
  if (::fallocate(fd_, 0, 0, static_cast<off_t>(total_bytes_)) == 0) return;
  if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) fail_with("cannot book the space", errno);
}

void AtomicFile::fail_with(const char* what, int error) const {
  std::string space;
  struct statvfs disk;
  if ((error == ENOSPC || error == EFBIG || error == EDQUOT) &&
      ::statvfs(folder_of(path_).c_str(), &disk) == 0)
    space = fmt::format(" ({} bytes needed, {} available on that disk)", total_bytes_,
                        static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize);
  const char* remedy = error == EFBIG ? "; the limit on file sizes is too low (see ulimit -f)" : "";
  fail("cannot write '{}': {}: {}{}{}; the file that was there is unchanged", path_.string(), what,
       std::strerror(error), space, remedy);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), std::min(bytes.size(), kBehind));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with("writing stopped", errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
    written_ += static_cast<uint64_t>(count);
    if (written_ - on_their_way_ < kBehind) continue;
    // Starts writing to the disk now instead of at commit(), which waits for it.
    ::sync_file_range(fd_, static_cast<off_t>(on_their_way_), static_cast<off_t>(written_ - on_their_way_),
                      SYNC_FILE_RANGE_WRITE);
    on_their_way_ = written_;
  }
}

void AtomicFile::write_zeros(uint64_t count) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  for (; count > 0; count -= std::min<uint64_t>(count, kZeros.size()))
    write(std::span(kZeros).first(std::min<uint64_t>(count, kZeros.size())));
}

void AtomicFile::commit() {
  GENESIS_ASSERT(written_ == total_bytes_);
  if (::fsync(fd_) != 0) fail_with("the data did not reach the disk", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail_with("cannot put the new file in its place", errno);
  ::close(std::exchange(fd_, -1));
  registered_.unregister();
  // Makes the rename itself durable; file systems that cannot do this report EINVAL.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = folder < 0 || ::fsync(folder) == 0 || errno == EINVAL;
  const int error = errno;
  if (folder >= 0) ::close(folder);
  if (!synced)
    fail("'{}' was written, but its folder could not be brought to the disk: {}", path_.string(),
         std::strerror(error));
}

void remove_abandoned_files(const fs::path& folder, const std::function<bool(const fs::path&)>& is_ours) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::path target = target_of_temporary(at->path().filename().string());
    if (!target.empty() && is_ours(target)) remove_if_abandoned(at->path());
  }
}

void write_file_atomically(const fs::path& path, std::string_view text, LinkAtName link) {
  AtomicFile file(path, text.size(), link);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void check_can_write_atomically(const fs::path& path) { const AtomicFile file(path, 0); }

void check_leads_somewhere(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error) || fs::exists(path, error)) return;
  fail(
      "cannot write '{}': it is a symbolic link to '{}', and there is no such file: remove the link, or make "
      "the file that it leads to",
      path.string(), fs::read_symlink(path, error).string());
}

}  // namespace genesis
