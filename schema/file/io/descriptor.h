// An open file descriptor that is closed at the end of its scope.
#pragma once

#include <unistd.h>

namespace genesis {

struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  Descriptor(Descriptor&& other) noexcept : fd(other.fd) { other.fd = -1; }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }

  int fd;  // negative: none
};

}  // namespace genesis
