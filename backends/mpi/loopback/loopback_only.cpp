// A module that is preloaded (LD_PRELOAD) into mpirun if all ranks are on this host: sockets that mpirun would bind to all
// interfaces are bound to the loopback address. Open MPI 4 always listens for its daemons on other hosts, whatever its options
// say, although there are none here. The module is loaded only by mpirun, not by the processes that it starts.
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

using Bind = int (*)(int, const sockaddr*, socklen_t);

// Called when mpirun starts: restores LD_PRELOAD, so that its children only load what the user had preloaded.
__attribute__((constructor)) void leave_the_environment() {
  const char* preloaded = std::getenv("LD_PRELOAD");
  const char* others = preloaded ? std::strchr(preloaded, ':') : nullptr;
  if (others)
    ::setenv("LD_PRELOAD", std::string(others + 1).c_str(), 1);
  else
    ::unsetenv("LD_PRELOAD");
}

template <class Address>
Address copied(const sockaddr* address) {
  Address copy;
  std::memcpy(&copy, address, sizeof copy);
  return copy;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int bind(int socket, const sockaddr* address,
                                                           socklen_t length) {
  static const auto real = reinterpret_cast<Bind>(dlsym(RTLD_NEXT, "bind"));
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    auto inside = copied<sockaddr_in>(address);
    if (inside.sin_addr.s_addr == htonl(INADDR_ANY)) inside.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return real(socket, reinterpret_cast<const sockaddr*>(&inside), sizeof inside);
  }
  if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    auto inside = copied<sockaddr_in6>(address);
    if (IN6_IS_ADDR_UNSPECIFIED(&inside.sin6_addr)) inside.sin6_addr = in6addr_loopback;
    return real(socket, reinterpret_cast<const sockaddr*>(&inside), sizeof inside);
  }
  return real(socket, address, length);
}
