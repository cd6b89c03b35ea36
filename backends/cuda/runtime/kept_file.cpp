#include "backends/cuda/runtime/kept_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <span>

#include "schema/core/error.h"
#include "schema/file/format/hash.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/io/read_file.h"

namespace genesis::cuda {
namespace {

// Only one process at a time has it. Where the file cannot be locked, all go on.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : fd_(::open((folder / "kept.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
    if (fd_ >= 0) ::flock(fd_, LOCK_EX);
  }
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

}  // namespace

std::string hash_text(const std::string& text) {
  return file::hash_of(std::as_bytes(std::span(text))).to_string();
}

std::optional<std::string> read_kept(const std::filesystem::path& path) {
  std::error_code missing;
  if (!std::filesystem::exists(path, missing)) return std::nullopt;
  std::string text;
  try {
    text = read_whole_file(path);
  } catch (const Error&) {  // then the caller makes it again
    return std::nullopt;
  }
  constexpr size_t kDigits = 32;
  if (text.size() <= kDigits) return std::nullopt;
  std::string bytes = text.substr(kDigits);
  if (hash_text(bytes) != text.substr(0, kDigits)) return std::nullopt;
  return bytes;
}

void keep(const std::filesystem::path& path, const std::string& bytes) {
  try {
    write_file_atomically(path, hash_text(bytes) + bytes, LinkAtName::kReplaced);
  } catch (const Error&) {
  }
}

std::string keep_first(const std::filesystem::path& path, const std::string& bytes,
                       const std::string& unusable) {
  const FolderLock lock(path.parent_path());
  if (auto kept = read_kept(path); kept && *kept != unusable) return *kept;
  keep(path, bytes);
  return bytes;
}

}  // namespace genesis::cuda
