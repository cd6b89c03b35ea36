#include "schema/file/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "schema/core/error.h"
#include "schema/file/io/lfs_pointer.h"

namespace genesis {

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Opens without blocking, so that a pipe given by mistake is refused below instead of waited for.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail("cannot open '{}': {}", path.string(), std::strerror(errno));
  struct stat facts;
  if (::fstat(file.fd, &facts) != 0) fail("cannot read '{}': {}", path.string(), std::strerror(errno));
  if (S_ISDIR(facts.st_mode)) fail("cannot read '{}': it is a folder", path.string());
  if (!S_ISREG(facts.st_mode)) fail("cannot read '{}': it is not a regular file", path.string());
  const auto size = static_cast<size_t>(facts.st_size);
  const FileStamp stamp{size, int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec};
  if (size == 0)
    return std::shared_ptr<const MappedFile>(new MappedFile(std::move(file), path, stamp, nullptr));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED)
    fail("cannot map the {} bytes of '{}' into memory: {}", size, path.string(), std::strerror(errno));
  const std::shared_ptr<const MappedFile> mapped(
      new MappedFile(std::move(file), path, stamp, static_cast<const std::byte*>(data)));
  check_is_no_lfs_pointer(path, {static_cast<const char*>(data), size});
  return mapped;
}

std::vector<std::byte> MappedFile::copy(size_t offset, size_t count) const {
  GENESIS_ASSERT(offset <= size_ && count <= size_ - offset);
  std::vector<std::byte> bytes(count);
  for (size_t held = 0; held < count;) {
    const ssize_t more =
        ::pread(file_.fd, bytes.data() + held, count - held, static_cast<off_t>(offset + held));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) fail("cannot read it: {}", std::strerror(errno));
    if (more == 0) fail("it became shorter than {} bytes while it was read", size_);
    held += static_cast<size_t>(more);
  }
  return bytes;
}

bool MappedFile::map_at(void* address, size_t offset, size_t count) const {
  GENESIS_ASSERT(offset <= size_ && count <= size_ - offset);
  return ::mmap(address, count, PROT_READ, MAP_PRIVATE | MAP_FIXED, file_.fd, static_cast<off_t>(offset)) !=
         MAP_FAILED;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace genesis
