#include "schema/file/io/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>

#include "schema/core/error.h"
#include "schema/file/io/descriptor.h"
#include "schema/file/io/lfs_pointer.h"

namespace genesis {
namespace {

[[noreturn]] void fail_to_read(const std::filesystem::path& path, const char* why) {
  fail("cannot read '{}': {}", path.string(), why);
}

struct stat facts_of(int fd, const std::filesystem::path& path) {
  struct stat facts;
  if (::fstat(fd, &facts) != 0) fail_to_read(path, std::strerror(errno));
  if (S_ISDIR(facts.st_mode)) fail_to_read(path, "it is a folder");
  return facts;
}

void check_is_regular(int fd, const std::filesystem::path& path) {
  if (!S_ISREG(facts_of(fd, path).st_mode)) fail_to_read(path, "it is not a regular file");
}

// Returns the size that the file reports; 0 for pipes and for some files of the kernel.
size_t size_hint(int fd, const std::filesystem::path& path) {
  const struct stat facts = facts_of(fd, path);
  return S_ISREG(facts.st_mode) ? static_cast<size_t>(facts.st_size) : 0;
}

void check_limit(size_t bytes, uint64_t limit, const std::filesystem::path& path) {
  if (bytes > limit)
    fail("cannot read '{}': {} bytes are more than the limit of {}", path.string(), bytes, limit);
}

std::string read_to_end(const Descriptor& file, const std::filesystem::path& path, uint64_t limit) {
  constexpr size_t kMin = 64 << 10;
  const size_t hint = size_hint(file.fd, path);
  check_limit(hint, limit, path);
  std::string text;
  text.resize(std::max(hint + 1, kMin));
  for (size_t held = 0;;) {
    const ssize_t more = ::read(file.fd, text.data() + held, text.size() - held);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) fail_to_read(path, std::strerror(errno));
    held += static_cast<size_t>(more);
    check_limit(held, limit, path);
    if (more == 0) {
      text.resize(held);
      check_is_no_lfs_pointer(path, text);
      return text;
    }
    if (held == text.size()) text.resize(2 * text.size());
  }
}

std::string read_opened(const std::filesystem::path& path, uint64_t limit, int more_flags,
                        void (*check)(int fd, const std::filesystem::path& path)) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | more_flags));
  if (file.fd < 0) fail("cannot open '{}': {}", path.string(), std::strerror(errno));
  check(file.fd, path);
  try {
    return read_to_end(file, path, limit);
  } catch (const std::bad_alloc&) {
    fail_to_read(path, "it does not fit into the memory this process may have");
  } catch (const std::length_error&) {
    fail_to_read(path, "it does not fit into the memory this process may have");
  }
}

}  // namespace

std::string read_whole_file(const std::filesystem::path& path, uint64_t limit) {
  return read_opened(path, limit, 0, [](int, const std::filesystem::path&) {});
}

std::string read_regular_file(const std::filesystem::path& path, uint64_t limit) {
  return read_opened(path, limit, O_NONBLOCK, check_is_regular);
}

}  // namespace genesis
