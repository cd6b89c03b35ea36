#include "executor/training/checkpoint_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>

#include "executor/training/checkpoint.h"
#include "executor/training/checkpoint_names.h"
#include "executor/training/checkpoint_shards.h"
#include "schema/core/error.h"
#include "schema/core/host_name.h"
#include "schema/file/io/atomic_write.h"
#include "schema/messages/log.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

// Returns the text that the lock file holds during a run, shown to others that find the folder in use.
std::string own_description() {
  std::array<char, 256> time{};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return fmt::format("process {} on host {} since {}", ::getpid(), host_name(), time.data());
}

std::string read_owner(int fd) {
  std::array<char, 512> text{};
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  std::string owner(text.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)));
  while (!owner.empty() && owner.back() == '\n') owner.pop_back();
  return owner.empty() ? "another process" : owner;
}

bool is_still_there(int fd, const fs::path& file) {
  struct stat held, named;
  return ::fstat(fd, &held) == 0 && ::stat(file.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

// Returns 0, or the error number.
int lock(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

}  // namespace

CheckpointLock::CheckpointLock(const fs::path& directory)
    : directory_(directory), file_(directory / ".lock") {
  make_checkpoint_folder(directory);
  while (!try_lock()) {
  }
  remove_abandoned_files(directory, is_checkpoint_name);
  remove_abandoned_shards(directory);
}

bool CheckpointLock::try_lock() {
  fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0)
    fail("cannot write checkpoints to {}: its lock file {}: {}", directory_.string(), file_.string(),
         std::strerror(errno));
  const int error = lock(fd_);
  if (error == EWOULDBLOCK) {
    const std::string owner = read_owner(fd_);
    ::close(std::exchange(fd_, -1));
    fail(
        "the checkpoint folder {} is in use by another training run, {}: wait for it, end it, or name "
        "another folder",
        directory_.string(), owner);
  }
  if (error != 0) {
    log_warning("the checkpoint folder {} cannot be locked ({}): see that no other run writes to it",
                directory_.string(), std::strerror(error));
    ::close(std::exchange(fd_, -1));
    return true;
  }
  if (!is_still_there(fd_, file_)) {
    ::close(std::exchange(fd_, -1));
    return false;
  }
  const std::string owner = own_description() + "\n";
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, owner.data(), owner.size(), 0) < 0)
    log_debug("{} could not be written: {}", file_.string(), std::strerror(errno));
  return true;
}

std::string CheckpointLock::owner(const fs::path& directory) {
  std::ifstream in(directory / ".lock");
  std::string owner;
  std::getline(in, owner);
  return owner;
}

CheckpointLock::~CheckpointLock() {
  if (fd_ < 0) return;
  ::unlink(file_.c_str());  // before the lock is released, so that no other run's file is removed
  ::close(fd_);
}

}  // namespace genesis
