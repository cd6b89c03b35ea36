#include "schema/file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "schema/error.h"

namespace genesis {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Non-blocking, so that a pipe given by mistake is refused below instead of waited for.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail("cannot open '{}': {}", path.string(), std::strerror(errno));
  struct stat facts;
  if (::fstat(file.fd, &facts) != 0) fail("cannot read '{}': {}", path.string(), std::strerror(errno));
  if (S_ISDIR(facts.st_mode)) fail("cannot read '{}': it is a folder", path.string());
  if (!S_ISREG(facts.st_mode)) fail("cannot read '{}': it is not a regular file", path.string());
  const auto size = static_cast<size_t>(facts.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(nullptr, 0));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED)
    fail("cannot map the {} bytes of '{}' into memory: {}", size, path.string(), std::strerror(errno));
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace genesis
