#include "tools/common/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "schema/core/error.h"

namespace genesis::tools {

// open() returns the lowest free number, and the lower ones are taken at this point.
void open_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    if (::open("/dev/null", O_RDONLY) < 0)
      fail("descriptor {} is closed, and /dev/null cannot stand for it: {}", stream, std::strerror(errno));
  }
}

}  // namespace genesis::tools
